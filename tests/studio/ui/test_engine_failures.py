"""What goes wrong on the engine's thread becomes one sentence in its place, and the engine goes on."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from studio.core.history import History
from studio.core.taken import take
from tests.gguf_writer import tiny_gguf
from tests.studio.ui.test_engine import SKVQ, answer, engine, gate, idle, notes, ready, short_replies
from tests.studio.ui.worker import LONG, Notes, Speaker
from tests.tiny import tiny_folder
from veloxquant_mlx import live as live_module
from veloxquant_mlx.models import gguf
from veloxquant_mlx.report.schema import validate_report
from veloxquant_mlx.steps import Step, TokenStep

__all__ = ["engine", "notes", "ready", "short_replies"]


def failure(qtbot: QtBot, engine: Speaker, act: Any) -> tuple[str, str, str]:
    """Where, sentence and details of what an action makes fail."""
    with qtbot.waitSignal(engine.failed, timeout=LONG) as failed:
        act()
    idle(qtbot, engine)
    where, sentence, details = failed.args  # type: ignore[misc]
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "Traceback" in details
    return where, sentence, details


def test_a_message_without_a_model(qtbot: QtBot, engine: Speaker) -> None:
    where, sentence, _ = failure(qtbot, engine, lambda: engine.send("hello"))
    assert where == "chat"
    assert "No model is loaded" in sentence


@pytest.mark.parametrize("prompt", ["", "   "])
def test_an_empty_message(qtbot: QtBot, ready: Speaker, notes: Notes, prompt: str) -> None:
    where, sentence, _ = failure(qtbot, ready, lambda: ready.send(prompt))
    assert where == "chat"
    assert "message is empty" in sentence
    assert notes.of("started") == []
    assert answer(qtbot, ready).reply_tokens > 0


def test_a_message_longer_than_the_context(qtbot: QtBot, ready: Speaker) -> None:
    where, sentence, _ = failure(qtbot, ready, lambda: ready.send("word " * 3000))
    assert where == "chat"
    assert "4,096" in sentence
    assert answer(qtbot, ready).reply_tokens > 0


def test_nothing_to_regenerate(qtbot: QtBot, ready: Speaker) -> None:
    where, sentence, _ = failure(qtbot, ready, ready.regenerate)
    assert (where, "no message to answer" in sentence) == ("chat", True)


def test_a_model_that_is_not_there(qtbot: QtBot, ready: Speaker, notes: Notes, tmp_path: Path) -> None:
    where, sentence, _ = failure(qtbot, ready, lambda: ready.load(str(tmp_path / "nowhere")))
    assert where == "models"
    assert "nowhere" in sentence
    # The model that was there is kept.
    assert "unloaded" not in notes.names()


def test_weights_of_nan(qtbot: QtBot, engine: Speaker, tmp_path: Path) -> None:
    import mlx.core as mx

    broken = tiny_folder(tmp_path / "broken")
    weights = dict(mx.load(str(broken / "model.safetensors")))
    weights["model.norm.weight"] = mx.full(weights["model.norm.weight"].shape, float("nan"))
    mx.save_safetensors(str(broken / "model.safetensors"), weights, metadata={"format": "mlx"})
    engine.configure(SKVQ)
    engine.load(str(broken))
    where, sentence, _ = failure(qtbot, engine, lambda: engine.send("hello"))
    assert (where, "NaN" in sentence) == ("chat", True)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("[matmul] odd"), "unexpected"),
        (MemoryError(), "ran out of memory"),
        (KeyError("x"), "log"),
    ],
)
def test_what_nobody_foresaw(
    qtbot: QtBot, ready: Speaker, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    real = live_module.generate

    def breaking(*arguments: Any, **told: Any) -> Iterator[Step]:
        with contextlib.closing(real(*arguments, **told)) as steps:  # type: ignore[type-var]
            for step in steps:
                yield step
                if isinstance(step, TokenStep) and step.count == 2:
                    raise error

    with monkeypatch.context() as patch:
        patch.setattr(live_module, "generate", breaking)
        where, sentence, details = failure(qtbot, ready, lambda: ready.send("hello"))
    assert where == "chat"
    assert words in sentence
    assert "[matmul]" not in sentence
    assert type(error).__name__ in details
    assert answer(qtbot, ready, "again").reply_tokens > 0


def test_models_found_hold_what_was_opened(qtbot: QtBot, ready: Speaker, folder: Path) -> None:
    with qtbot.waitSignal(ready.models_found, timeout=LONG) as found:
        ready.find_models()
    assert [model.path for model in found.args[0]] == [folder]  # type: ignore[index]


def test_an_imported_file_is_loaded_and_found(
    qtbot: QtBot, engine: Speaker, home: Path, tmp_path: Path
) -> None:
    file = tiny_gguf(tmp_path / "small.gguf")
    with qtbot.waitSignals([engine.loaded, engine.models_found], timeout=LONG, order="strict"):
        engine.import_gguf(str(file))
    assert (home / "data" / "models" / "small" / "config.json").is_file()
    idle(qtbot, engine)
    with qtbot.waitSignal(engine.started, timeout=LONG):
        engine.send("hello")
    engine.stop()


def test_a_damaged_file_is_refused(qtbot: QtBot, engine: Speaker, home: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"")
    where, sentence, _ = failure(qtbot, engine, lambda: engine.import_gguf(str(tmp_path / "bad.gguf")))
    assert where == "models"
    assert "bad.gguf" in sentence
    assert not list(home.rglob("*.part"))


def test_an_import_can_be_cancelled_at_once(
    qtbot: QtBot, engine: Speaker, notes: Notes, home: Path, tmp_path: Path
) -> None:
    file = tiny_gguf(tmp_path / "small.gguf")
    with qtbot.waitSignal(engine.cancelled, timeout=LONG) as cancelled:
        engine.import_gguf(str(file))
        engine.stop()
    assert cancelled.args == ["models"]
    idle(qtbot, engine)
    assert "loaded" not in notes.names()
    assert not (home / "data" / "models" / "small").exists()


def test_an_import_cancelled_half_way_leaves_nothing(
    qtbot: QtBot, ready: Speaker, notes: Notes, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tiny_gguf(tmp_path / "small.gguf")
    reached, go_on = threading.Event(), threading.Event()
    real = gguf.convert

    def halting(*arguments: Any) -> None:
        reached.set()
        go_on.wait(LONG / 1000)
        real(*arguments)

    monkeypatch.setattr(gguf, "convert", halting)
    ready.import_gguf(str(file))
    qtbot.waitUntil(reached.is_set, timeout=LONG)
    assert list((home / "data" / "models").glob(".small.*.part"))
    ready.stop()
    with qtbot.waitSignal(ready.cancelled, timeout=LONG):
        go_on.set()
    idle(qtbot, ready)
    assert list((home / "data" / "models").iterdir()) == []
    # The model that was loaded before is still there.
    assert "unloaded" not in notes.names()
    assert answer(qtbot, ready).reply_tokens > 0


def test_a_cancelled_load_gives_back_the_model_s_place(
    qtbot: QtBot, ready: Speaker, notes: Notes, folder: Path
) -> None:
    with qtbot.waitSignal(ready.cancelled, timeout=LONG):
        ready.load(str(folder))
        ready.stop()
    idle(qtbot, ready)
    assert "unloaded" in notes.names()
    with qtbot.waitSignal(ready.loaded, timeout=LONG):
        ready.load(str(folder))


def taken_of(steps: list[Step]) -> Any:
    history = History()
    for step in steps:
        history.append(step)
    return take(history)


def test_a_report_is_written_while_a_reply_runs(
    qtbot: QtBot, ready: Speaker, notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = gate(monkeypatch, lambda step: isinstance(step, TokenStep) and step.count == 20)
    ready.send("hello there")
    qtbot.waitUntil(held.reached, timeout=LONG)
    path = tmp_path / "report.json"
    ready.export(str(path), True, taken_of(ready.drain()))
    with qtbot.waitSignal(ready.finished, timeout=LONG):
        held.open()
    assert notes.names().index("exported") < notes.names().index("finished")
    assert notes.of("exported") == [(str(path),)]
    report = json.loads(path.read_text())
    validate_report(report)
    # One moment: what the reply added while the report was written is in no part of it.
    assert report["tokens"]["in_cache"] == report["history"]["tokens"][-1]
    assert report["totals"]["resident_bytes_measured"] == report["history"]["resident"][-1]
    assert [turn["content"] for turn in report["transcript"]] == ["hello there"]
    idle(qtbot, ready)
    assert len(notes.of("exported")) == 1


def test_a_report_asked_for_at_the_end_holds_the_reply(qtbot: QtBot, ready: Speaker, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    ready.finished.connect(lambda _: ready.export(str(path), True, taken_of(ready.drain())))
    with qtbot.waitSignal(ready.exported, timeout=LONG):
        ready.send("hello there")
    report = json.loads(path.read_text())
    validate_report(report)
    assert [turn["role"] for turn in report["transcript"]] == ["user", "assistant"]


def test_a_report_that_cannot_be_written(qtbot: QtBot, ready: Speaker, tmp_path: Path) -> None:
    where, sentence, _ = failure(
        qtbot, ready, lambda: ready.export(str(tmp_path / "gone" / "r.json"), False, take(None))
    )
    assert where == "export"
    assert "r.json" in sentence


def test_a_report_without_a_model(qtbot: QtBot, engine: Speaker, tmp_path: Path) -> None:
    where, sentence, _ = failure(
        qtbot, engine, lambda: engine.export(str(tmp_path / "r.json"), False, take(None))
    )
    assert (where, "nothing to export" in sentence) == ("export", True)
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_cannot_start_says_so(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ImportError("mlx is not for this machine")

    monkeypatch.setattr("veloxquant_mlx.config.methods", broken)
    made = Speaker()
    told = Notes(made)
    try:
        with qtbot.waitSignal(made.failed, timeout=LONG):
            made.start()
        idle(qtbot, made)
        assert told.of("failed")[0][0] == "cache"
        where, sentence, _ = failure(qtbot, made, lambda: made.send("hello"))
        assert (where, "could not start" in sentence) == ("chat", True)
    finally:
        made.close()
