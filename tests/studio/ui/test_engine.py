"""The engine with a real worker thread and a tiny model: replies, settings, stopping, the end."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from studio.core import session as session_module
from studio.core.taken import take
from studio.ui.engine import EngineThread
from tests.studio.ui.worker import LONG, Gate, Notes, Speaker, endless
from veloxquant_mlx import live as live_module
from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.steps import FinishedStep, PrefillStep, Step, TokenStep

SKVQ = KVCacheConfig(method="skvq", skvq_window=16)
PLAIN = KVCacheConfig(method="plain")


@pytest.fixture(autouse=True)
def short_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model hardly ever ends a reply by itself: after 24 tokens it is enough."""
    real = live_module.generate

    def short(*arguments: Any, **words: Any) -> Iterator[Step]:
        return real(*arguments, **(words | {"max_tokens": 24}))

    monkeypatch.setattr(live_module, "generate", short)


@pytest.fixture
def engine(qtbot: QtBot) -> Iterator[Speaker]:
    made = Speaker()
    made.notes = Notes(made)  # type: ignore[attr-defined]
    with qtbot.waitSignal(made.methods_ready, timeout=LONG):
        made.start()
    yield made
    made.close()


@pytest.fixture
def notes(engine: Speaker) -> Notes:
    return engine.notes  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def ready(qtbot: QtBot, engine: Speaker, folder: Path) -> Speaker:
    """An engine with the small model loaded and SKVQ chosen."""
    engine.configure(SKVQ)
    with qtbot.waitSignal(engine.loaded, timeout=LONG):
        engine.load(str(folder))
    idle(qtbot, engine)
    return engine


def idle(qtbot: QtBot, engine: Speaker) -> None:
    qtbot.waitUntil(lambda: engine.state == "idle", timeout=LONG)


def gate(monkeypatch: pytest.MonkeyPatch, fits: Any) -> Gate:
    made = Gate(live_module.generate, fits)
    monkeypatch.setattr(live_module, "generate", made)
    return made


def answer(qtbot: QtBot, engine: Speaker, prompt: str = "hello there") -> FinishedStep:
    """Send a message and wait for the end of its reply."""
    with qtbot.waitSignal(engine.finished, timeout=LONG) as end:
        engine.send(prompt)
    idle(qtbot, engine)
    return end.args[0]  # type: ignore[no-any-return,index]


def test_methods_come_first(engine: Speaker, notes: Notes) -> None:
    assert notes.names()[0] == "methods_ready"
    assert notes.of("methods_ready") == [(methods(),)]


def test_loading_tells_progress_and_what_is_loaded(
    qtbot: QtBot, engine: Speaker, notes: Notes, folder: Path
) -> None:
    idle(qtbot, engine)
    notes.told.clear()
    engine.load(str(folder))
    qtbot.waitUntil(lambda: "loaded" in notes.names() and engine.state == "idle", timeout=LONG)
    ((info,),) = notes.of("loaded")
    assert (info.info.name, info.context, info.plan.replaced) == ("tiny-llama", 4096, 3)
    assert notes.of("state_changed") == [("loading",), ("idle",)]
    shares = [share for share, _ in notes.of("progress") if share is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert all(words for _, words in notes.of("progress"))


def test_a_reply_goes_from_started_over_steps_to_finished(qtbot: QtBot, ready: Speaker, notes: Notes) -> None:
    notes.told.clear()
    end = answer(qtbot, ready)
    assert notes.names() == [
        "state_changed", "started", "state_changed", "finished", "state_changed"
    ]  # fmt: skip
    assert notes.of("state_changed") == [("prefill",), ("generating",), ("idle",)]
    assert notes.of("started") == [("reply",)]
    steps = ready.drain()
    assert steps[-1] is end
    assert (
        "".join(step.text for step in steps if isinstance(step, TokenStep))
        == end.text[: len("".join(step.text for step in steps if isinstance(step, TokenStep)))]
    )
    assert [step.count for step in steps if isinstance(step, TokenStep)] == list(
        range(1, end.reply_tokens + 1)
    )
    assert ready.drain() == []


def test_everything_is_told_on_the_screen_s_thread_and_done_on_another(
    qtbot: QtBot, ready: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worked_on: set[int] = set()
    real = live_module.generate

    def noting(*arguments: Any, **words: Any) -> Iterator[Step]:
        worked_on.add(threading.get_ident())
        yield from real(*arguments, **words)

    monkeypatch.setattr(live_module, "generate", noting)
    answer(qtbot, ready)
    with qtbot.waitSignal(ready.exported, timeout=LONG):
        ready.export(str(tmp_path / "r.json"), True, take(None))
    with qtbot.waitSignal(ready.failed, timeout=LONG):
        ready.send("")
    with qtbot.waitSignal(ready.models_found, timeout=LONG):
        ready.find_models()
    with qtbot.waitSignal(ready.unloaded, timeout=LONG):
        ready.unload()
    assert notes.threads == {threading.main_thread().ident}
    assert len(worked_on) == 1
    assert threading.main_thread().ident not in worked_on


def test_commands_return_before_anything_is_done(ready: Speaker, notes: Notes) -> None:
    notes.told.clear()
    ready.send("hello")
    ready.new_chat()
    ready.configure(PLAIN)
    assert notes.told == []


def test_stop_at_once_then_send_again(qtbot: QtBot, ready: Speaker, notes: Notes) -> None:
    ready.send("hello there")
    ready.stop()
    ready.send("and now?")
    qtbot.waitUntil(lambda: len(notes.of("finished")) == 2, timeout=LONG)
    (first,), (second,) = notes.of("finished")
    assert (first.reason, first.reply_tokens) == ("stopped", 0)
    assert second.reason != "stopped"
    assert second.reply_tokens > 0


def test_stop_between_blocks_of_the_prompt(
    qtbot: QtBot, engine: Speaker, notes: Notes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = gate(monkeypatch, lambda step: isinstance(step, PrefillStep))
    engine.configure(SKVQ)
    engine.load(str(folder))
    engine.send("word " * 200)
    qtbot.waitUntil(held.reached, timeout=LONG)
    qtbot.waitUntil(lambda: engine.state == "prefill", timeout=LONG)
    assert engine.busy
    engine.stop()
    with qtbot.waitSignal(engine.finished, timeout=LONG) as end:
        held.open()
    assert (end.args[0].reason, end.args[0].prompt_tokens, end.args[0].reply_tokens) == ("stopped", 256, 0)
    assert [type(step) for step in engine.drain()] == [PrefillStep, PrefillStep, FinishedStep]
    idle(qtbot, engine)
    assert not engine.busy
    assert answer(qtbot, engine).reply_tokens > 0


def test_stop_between_tokens(
    qtbot: QtBot, ready: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = gate(monkeypatch, lambda step: isinstance(step, TokenStep) and step.count == 3)
    ready.send("hello there")
    qtbot.waitUntil(held.reached, timeout=LONG)
    qtbot.waitUntil(lambda: ready.state == "generating", timeout=LONG)
    ready.stop()
    with qtbot.waitSignal(ready.finished, timeout=LONG) as end:
        held.open()
    assert (end.args[0].reason, end.args[0].reply_tokens) == ("stopped", 4)


def test_regenerate_answers_once_more(qtbot: QtBot, ready: Speaker, notes: Notes) -> None:
    first = answer(qtbot, ready)
    with qtbot.waitSignal(ready.finished, timeout=LONG) as end:
        ready.regenerate()
    assert notes.of("started") == [("reply",), ("regenerate",)]
    assert end.args[0].tokens == first.tokens
    assert end.args[0].prompt_tokens == first.prompt_tokens


def test_a_new_setting_reads_the_conversation_again(qtbot: QtBot, ready: Speaker, notes: Notes) -> None:
    first = answer(qtbot, ready, "the first message of a conversation of two")
    assert first.snapshot.counted.codes > 0
    held = first.prompt_tokens + first.reply_tokens
    ready.drain()
    notes.told.clear()
    with qtbot.waitSignal(ready.configured, timeout=LONG) as done:
        ready.configure(PLAIN)
    idle(qtbot, ready)
    assert done.args == [PLAIN]
    assert notes.names() == ["state_changed", "started", "plan_changed", "configured", "state_changed"]
    assert notes.of("started") == [("reread",)]
    assert notes.of("state_changed") == [("rereading",), ("idle",)]
    assert notes.of("plan_changed")[0][0].replaced == 3
    steps = ready.drain()
    assert {type(step) for step in steps} == {PrefillStep}
    assert (steps[-1].snapshot.tokens, steps[-1].snapshot.counted.codes) == (held, 0)
    second = answer(qtbot, ready, "more")
    assert second.snapshot.counted.codes == 0
    assert second.prompt_tokens < first.prompt_tokens, "only the new message is read"


def test_a_setting_before_the_first_message_is_just_noted(qtbot: QtBot, ready: Speaker, notes: Notes) -> None:
    notes.told.clear()
    with qtbot.waitSignal(ready.configured, timeout=LONG):
        ready.configure(PLAIN)
    assert notes.names() == ["plan_changed", "configured"]
    assert ready.drain() == []
    assert answer(qtbot, ready).snapshot.counted.codes == 0


def test_reading_again_can_be_cancelled(
    qtbot: QtBot, ready: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(qtbot, ready, "word " * 200)
    held = Gate(session_module.prefill, lambda step: step.done < step.total)
    monkeypatch.setattr(session_module, "prefill", held)
    ready.configure(PLAIN)
    qtbot.waitUntil(held.reached, timeout=LONG)
    qtbot.waitUntil(lambda: ready.state == "rereading", timeout=LONG)
    assert ready.busy
    ready.stop()
    with qtbot.waitSignal(ready.cancelled, timeout=LONG) as where:
        held.open()
    assert where.args == ["cache"]
    idle(qtbot, ready)
    assert len(notes.of("configured")) == 1, "only the one of the fixture"
    again = answer(qtbot, ready, "more")
    assert again.snapshot.counted.codes > 0, "the old cache goes on"


def test_a_new_chat_forgets(qtbot: QtBot, ready: Speaker) -> None:
    first = answer(qtbot, ready)
    ready.new_chat()
    again = answer(qtbot, ready)
    assert again.prompt_tokens == first.prompt_tokens
    assert again.tokens == first.tokens


def test_a_new_chat_stops_the_running_reply(
    qtbot: QtBot, ready: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "generate", endless)
    ready.send("hello")
    qtbot.waitUntil(lambda: ready.state == "generating", timeout=LONG)
    with qtbot.waitSignal(ready.finished, timeout=LONG) as end:
        ready.new_chat()
    assert end.args[0].reason == "stopped"


def test_unloading_stops_the_running_reply_first(
    qtbot: QtBot, ready: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(live_module, "generate", endless)
        ready.send("hello")
        qtbot.waitUntil(lambda: ready.state == "generating", timeout=LONG)
        with qtbot.waitSignal(ready.unloaded, timeout=LONG):
            ready.unload()
    assert notes.names().index("finished") < notes.names().index("unloaded")
    with qtbot.waitSignal(ready.failed, timeout=LONG) as refused:
        ready.send("hello")
    assert refused.args[0] == "chat"
    assert "No model is loaded" in refused.args[1]


def test_closing_stops_a_running_reply_and_ends_the_thread(
    qtbot: QtBot, ready: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "generate", endless)
    ready.send("hello")
    qtbot.waitUntil(lambda: ready.state == "generating", timeout=LONG)
    ready.close()
    assert ready._thread.isFinished()
    qtbot.waitUntil(lambda: "finished" in notes.names(), timeout=LONG)
    assert notes.of("finished")[0][0].reason == "stopped"
    ready.close()


def test_closing_while_a_model_loads_ends_the_thread(qtbot: QtBot, engine: Speaker, folder: Path) -> None:
    engine.load(str(folder))
    engine.close()
    assert engine._thread.isFinished()


def test_an_engine_that_was_never_started_can_be_closed(qtbot: QtBot) -> None:
    made = Speaker()
    made.close()
    assert not made._thread.isRunning()


def test_engines_of_one_app_follow_one_another_on_its_thread(
    qtbot: QtBot, qapp: QApplication, folder: Path
) -> None:
    """The thread goes on when a window closes, and nothing of its engine stays there."""
    thread = EngineThread()
    written = []
    try:
        for _ in range(2):
            made = Speaker(thread)
            with qtbot.waitSignal(made.methods_ready, timeout=LONG):
                made.start()
            made.configure(SKVQ)
            with qtbot.waitSignal(made.loaded, timeout=LONG):
                made.load(str(folder))
            written.append(answer(qtbot, made).tokens)
            notes = Notes(made)
            made.close()
            assert thread.isRunning() and made._worker.thread() is qapp.thread()
            # What a closed engine is told is heard by nobody, least of all on this thread.
            made.find_models()
            qapp.processEvents()
            assert notes.of("models_found") == []
    finally:
        thread.end()
    assert written[0] == written[1] and thread.isFinished()


def test_engines_can_follow_one_another(qtbot: QtBot, ready: Speaker, folder: Path) -> None:
    """As when the app is started a second time: each has a thread and a model of its own."""
    first = answer(qtbot, ready)
    other = Speaker()
    with qtbot.waitSignal(other.methods_ready, timeout=LONG):
        other.start()
    try:
        other.configure(SKVQ)
        with qtbot.waitSignal(other.loaded, timeout=LONG):
            other.load(str(folder))
        assert answer(qtbot, other).tokens == first.tokens
    finally:
        other.close()
    assert answer(qtbot, ready, "still there?").reply_tokens > 0
