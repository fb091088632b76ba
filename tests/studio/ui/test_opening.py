"""Opening models from the window: questions before something is lost, what was used last."""

from dataclasses import replace
from pathlib import Path

import pytest

from studio.core.recent import recent_models
from studio.ui import opening
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import MODELS, STARTER, FakeEngine
from veloxquant_mlx.planning import Machine

QWEN = str(MODELS[1].path)


class Asked:
    """Answers every question the same way, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
        self.questions: list[str] = []
        self.answer = answer
        monkeypatch.setattr(opening, "confirm", self._confirm)

    def _confirm(self, parent: object, question: str, consequence: str, go: str) -> bool:
        self.questions.append(question)
        return self.answer


@pytest.fixture
def replying(loaded: MainWindow, engine: FakeEngine) -> MainWindow:
    loaded.send("Why?")
    engine.play_prefill(10, 20)
    engine.calls.clear()
    return loaded


def choose(window: MainWindow, path: str) -> None:
    window.models.list.select(path)
    window.models.load_button.click()


@pytest.mark.parametrize("answer", [True, False])
def test_another_model_during_a_reply_asks_once(
    replying: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    asked = Asked(monkeypatch, answer)
    choose(replying, QWEN)
    assert len(asked.questions) == 1 and "qwen" in asked.questions[0]
    assert (("load", QWEN) in engine.calls) is answer
    assert replying.models.is_busy() is answer


@pytest.mark.parametrize("answer", [True, False])
def test_so_does_unloading(
    replying: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    asked = Asked(monkeypatch, answer)
    replying.models.unload_button.click()
    assert len(asked.questions) == 1 and (("unload",) in engine.calls) is answer


def test_while_nothing_runs_nothing_is_asked(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch, False)
    choose(loaded, QWEN)
    assert asked.questions == [] and ("load", QWEN) in engine.calls and not engine.anyway


def test_one_that_will_not_fit_can_be_loaded_anyway(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.machine_told.emit(Machine(round(4e9), "as given", True))
    asked = Asked(monkeypatch, False)
    choose(loaded, QWEN)
    assert "Will not fit: about 4" in asked.questions[0] and "anyway" in asked.questions[0]
    assert ("load", QWEN) not in engine.calls
    asked.answer = True
    choose(loaded, QWEN)
    assert ("load", QWEN) in engine.calls and engine.anyway


def test_the_limit_is_the_person_s(loaded: MainWindow, engine: FakeEngine) -> None:
    engine.machine_told.emit(Machine(round(8e9), "as given", True))
    tight = loaded.fits.of(MODELS[1])[0]
    loaded.settings.use(replace(loaded.talk.settings, memory_limit=20))
    small = loaded.fits.of(MODELS[1])[0]
    assert tight is not None and small is not None and tight.state != small.state


def test_the_plan_of_a_model_that_is_not_loaded_is_said(loaded: MainWindow, engine: FakeEngine) -> None:
    engine.machine_told.emit(Machine(round(64e9), "as given", True))
    assert loaded.fits.of(MODELS[2])[1].startswith("8 of 48 slots compressed: 40 keep a 1,024-token window")


def test_what_was_used_is_remembered(loaded: MainWindow, engine: FakeEngine, tmp_path: Path) -> None:
    engine.play_loaded(replace(STARTER, path=tmp_path, name="mine", source="opened"))
    assert recent_models(loaded.talk.store)[0] == str(tmp_path)
    assert loaded.models.list.entries[0].name == "mine"
    loaded.opening.look()
    assert engine.more[0] == str(tmp_path)


def test_a_wrong_name_is_said_in_the_panel(loaded: MainWindow) -> None:
    loaded.opening.download("no name")
    assert "owner/name" in loaded.models.notice.sentence
