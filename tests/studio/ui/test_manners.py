"""Asked before a prompt that memory seems too small for."""

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from studio.core.manners import Excess
from studio.core.request import Request
from studio.ui import standing_row
from studio.ui.engine import Engine
from studio.ui.window import MainWindow
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import FakeEngine
from tests.tiny import tiny_folder
from veloxquant_mlx.planning import Machine
from veloxquant_mlx.sampling import Sampling

SMALLER = FakeConfig(fake_bits=2)
EXCESS = Excess(9000, 9_100_000_000, 6_800_000_000, 3210, SMALLER, "Fake Smallest", 5_200_000_000)


def say(
    window: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, choice: str
) -> list[tuple[str, ...]]:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(window.manners, "choose", lambda *words: (asked.append(words), choice)[1])
    window.chat.prompt.set_text("A very long message")
    window.chat.prompt.submit()
    request = next(call[1] for call in reversed(engine.calls) if call[0] == "answer")
    assert request.limit == window.talk.settings.memory_limit
    engine.busy, engine.state = False, "idle"
    engine.over_limit.emit(request, EXCESS)
    return asked


def answers(engine: FakeEngine) -> list[Request]:
    return [call[1] for call in engine.calls if call[0] == "answer"]


def test_going_on_holds_for_the_chat(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((sentence, instead, smaller),) = say(loaded, engine, monkeypatch, "go on")
    assert "9,000 tokens needs about 9.1 GB" in sentence and "6.8 GB may be used" in sentence
    assert "Fake Smallest needs about 5.2 GB" in instead and "3,200 tokens" in instead
    assert smaller == "Fake Smallest"
    assert [request.limit for request in answers(engine)] == [85, 0]
    engine.play_text("yes")
    engine.play_finished("yes")
    loaded.send("And now?")
    assert answers(engine)[-1].limit == 0
    loaded.new_chat()
    loaded.send("Another chat")
    assert answers(engine)[-1].limit == 85


def test_leaving_it_gives_the_message_back(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(loaded, engine, monkeypatch, "")
    assert len(answers(engine)) == 1
    assert loaded.chat.prompt.editor.toPlainText() == "A very long message"
    assert loaded.chat.is_empty() and loaded.chat.prompt.button.isEnabled()
    assert loaded.cache.row.words.text() == standing_row.SET


def test_the_smaller_setting_is_put_to_use(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(loaded, engine, monkeypatch, "use")
    assert loaded.cache.config() == SMALLER and loaded.applying.standing.in_use == SMALLER
    assert "Fake Smallest" in loaded.chat.notice.sentence
    assert loaded.chat.prompt.editor.toPlainText() == "A very long message"


def test_the_engine_asks_instead_of_reading(qtbot: QtBot, tmp_path: Path) -> None:
    engine = Engine()
    with qtbot.waitSignal(engine.methods_ready, timeout=60_000):
        engine.start()
    with qtbot.waitSignal(engine.loaded, timeout=60_000):
        engine.load(str(tiny_folder(tmp_path / "tiny")))
    engine.limit_memory(0, 0)
    small = Machine(10_000, "as given", metal=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("studio.core.manners.this_machine", lambda: small)
        request = Request("reply", (("user", "Why?"),), Sampling(max_tokens=16), limit=85)
        with qtbot.waitSignal(engine.over_limit, timeout=60_000) as asked:
            engine.answer(request)
        assert asked.args[0] == request and asked.args[1].memory == 8500
        with qtbot.waitSignal(engine.finished, timeout=60_000):
            engine.answer(Request("reply", (("user", "Why?"),), Sampling(max_tokens=16), limit=0))
    engine.close()
