"""When the engine saves the cache of a chat and goes back to it; everything with its real thread."""

import errno
import threading
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from pytestqt.qtbot import QtBot

from studio.core.caches import ChatCaches
from studio.core.request import Request
from studio.core.store import Store
from studio.ui import keeper
from tests.studio.ui.test_engine import PLAIN, SKVQ, engine, gate, idle, notes, ready, short_replies
from tests.studio.ui.worker import LONG, Notes, Speaker
from veloxquant_mlx.planning import Machine
from veloxquant_mlx.prompt import Turn
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep, PrefillStep, TokenStep

__all__ = ["engine", "notes", "ready", "short_replies"]

MUCH = 1 << 30
FIRST = "one two three " * 20


class Talker:
    """A kept chat, asked through an engine."""

    def __init__(self, qtbot: QtBot, engine: Speaker, store: Store) -> None:
        self.qtbot, self.engine, self.store = qtbot, engine, store
        self.chat = store.new_chat("words").id
        self.turns: list[Turn] = []

    @property
    def file(self) -> Path:
        return ChatCaches(self.store.path, MUCH).file(self.chat)

    def ask(self, text: str, journal: bool = True) -> FinishedStep:
        """Say something and wait for the end of the reply."""
        self.turns.append(("user", text))
        path = self.store.path if journal else None
        # Without a row of its own the reply is not written down: that is not what this is about.
        request = Request("reply", tuple(self.turns), Sampling(), chat=self.chat, journal=path)
        with self.qtbot.waitSignal(self.engine.finished, timeout=LONG) as end:
            self.engine.answer(request)
        idle(self.qtbot, self.engine)
        step: FinishedStep = end.args[0]  # type: ignore[index]
        self.turns.append(("assistant", step.text))
        return step


@pytest.fixture
def talker(qtbot: QtBot, ready: Speaker, store: Store, monkeypatch: pytest.MonkeyPatch) -> Talker:
    """Nothing is saved by itself: whoever pauses says so."""
    monkeypatch.setattr(keeper, "PAUSE_MS", 3_600_000)
    tell(qtbot, ready, store)
    return Talker(qtbot, ready, store)


def tell(qtbot: QtBot, engine: Speaker, store: Store, limit: int = MUCH) -> int:
    """Tell store and limit; what is saved then, in bytes."""
    with qtbot.waitSignal(engine.caches_told, timeout=LONG) as told:
        engine.keep_caches(store.path, limit)
    return told.args[0]  # type: ignore[no-any-return,index]


def leave(talker: Talker) -> None:
    with talker.qtbot.waitSignal(talker.engine.caches_told, timeout=LONG):
        talker.engine.new_chat()


def test_a_chat_that_is_left_and_opened_again_is_not_read_again(talker: Talker, notes: Notes) -> None:
    end = talker.ask(FIRST)
    assert not talker.file.exists()
    leave(talker)
    assert notes.of("caches_told")[-1] == (talker.file.stat().st_size,)
    talker.engine.drain()
    again = talker.ask("and now?")
    first = talker.engine.drain()[0]
    assert isinstance(first, PrefillStep) and first.reuse is not None
    assert first.reuse.kept >= end.prompt_tokens and first.reuse.again == 0
    assert again.prompt_tokens == first.total < 30
    assert ("resuming",) in notes.of("state_changed")
    # As if it had never been left.
    other = Talker(talker.qtbot, talker.engine, talker.store)
    other.ask(FIRST)
    assert other.ask("and now?").tokens == again.tokens


def test_a_pause_after_a_reply_saves_it(talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "PAUSE_MS", 0)
    with talker.qtbot.waitSignal(talker.engine.caches_told, timeout=LONG) as told:
        talker.ask(FIRST)
    assert told.args == [talker.file.stat().st_size]


def test_it_is_saved_before_the_model_goes(qtbot: QtBot, talker: Talker, folder: Path) -> None:
    talker.ask(FIRST)
    talker.engine.unload()
    qtbot.waitUntil(talker.file.exists, timeout=LONG)
    with qtbot.waitSignal(talker.engine.loaded, timeout=LONG):
        talker.engine.load(str(folder))
    idle(qtbot, talker.engine)
    assert talker.ask("more").reuse.kept > 0  # type: ignore[union-attr]
    longer = talker.file.stat().st_size
    with qtbot.waitSignal(talker.engine.loaded, timeout=LONG):
        talker.engine.load(str(folder))
    idle(qtbot, talker.engine)
    assert talker.file.stat().st_size > longer


def test_it_is_saved_when_the_app_is_closed_and_what_was_deleted_goes(talker: Talker) -> None:
    talker.ask(FIRST)
    leave(talker)
    other = Talker(talker.qtbot, talker.engine, talker.store)
    other.ask(FIRST)
    talker.store.delete(talker.chat)
    talker.store.purge()
    talker.engine.close()
    assert other.file.exists() and not talker.file.exists()


def test_writing_the_file_is_told_from_its_beginning_to_its_end(talker: Talker, notes: Notes) -> None:
    talker.ask(FIRST)
    assert notes.of("saving") == []
    leave(talker)
    assert notes.of("saving") == [(True,), (False,)]
    # Its file is as new: there is nothing to be written.
    talker.engine.new_chat()
    tell(talker.qtbot, talker.engine, talker.store)
    assert len(notes.of("saving")) == 2


def test_closing_says_that_it_lasts_and_waits_for_the_file(
    talker: Talker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is drawn any more where the thread is waited for without events."""
    talker.ask(FIRST)
    go_on, real = threading.Event(), mx.save_safetensors

    def slow(*arguments: Any) -> None:
        assert go_on.wait(LONG / 1000)
        real(*arguments)

    monkeypatch.setattr(mx, "save_safetensors", slow)
    lasting: list[bool] = []

    def last() -> None:
        lasting.append(talker.file.exists())
        talker.engine.saving.connect(lambda on: on and go_on.set())

    talker.engine.close(last)
    assert lasting == [False] and talker.file.exists()
    assert notes.of("saving") == [(True,), (False,)] and talker.engine._thread.isFinished()


def test_another_setting_reads_the_chat_without_a_word(qtbot: QtBot, talker: Talker, notes: Notes) -> None:
    talker.ask(FIRST)
    leave(talker)
    with qtbot.waitSignal(talker.engine.configured, timeout=LONG):
        talker.engine.configure(PLAIN)
    idle(qtbot, talker.engine)
    end = talker.ask("and now?")
    assert end.reuse is not None and end.reuse.kept == 0
    assert notes.of("failed") == notes.of("noted") == [] and ("resuming",) not in notes.of("state_changed")
    # Read again through the old one, its newer file is of that one.
    with qtbot.waitSignal(talker.engine.configured, timeout=LONG):
        talker.engine.configure(SKVQ)
    leave(talker)
    assert talker.ask("and then?").reuse.again == 0  # type: ignore[union-attr]


def test_a_damaged_file_is_read_around(talker: Talker, notes: Notes) -> None:
    talker.ask(FIRST)
    leave(talker)
    talker.file.write_bytes(talker.file.read_bytes()[:-100])
    end = talker.ask("and now?")
    assert end.reuse is not None and end.reuse.kept == 0
    assert not talker.file.exists()
    assert notes.of("failed") == notes.of("noted") == []


def test_a_full_disk_is_said_once_and_the_chat_goes_on(
    talker: Talker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(mx, "save_safetensors", full)
        talker.ask(FIRST)
        leave(talker)
        talker.ask("more")
        leave(talker)
    ((sentence,),) = notes.of("noted")
    assert sentence.startswith("The disk is full") and notes.of("failed") == []
    talker.ask("and more")
    leave(talker)
    assert talker.file.exists() and len(notes.of("noted")) == 1


def test_a_limit_of_0_saves_nothing_and_removes_what_is_there(qtbot: QtBot, talker: Talker) -> None:
    talker.ask(FIRST)
    leave(talker)
    assert tell(qtbot, talker.engine, talker.store) == talker.file.stat().st_size
    assert tell(qtbot, talker.engine, talker.store, 0) == 0 and not talker.file.exists()
    talker.ask("more")
    leave(talker)
    assert not talker.file.exists()


def test_all_are_removed_on_demand_and_a_held_cache_is_saved_again(qtbot: QtBot, talker: Talker) -> None:
    talker.ask(FIRST)
    leave(talker)
    talker.ask("more")
    with qtbot.waitSignal(talker.engine.caches_told, timeout=LONG) as told:
        talker.engine.remove_caches()
    assert told.args == [0] and not talker.file.exists()
    leave(talker)
    assert talker.file.exists()


def test_a_chat_in_no_store_has_no_file(qtbot: QtBot, talker: Talker) -> None:
    talker.ask(FIRST, journal=False)
    talker.engine.new_chat()
    assert tell(qtbot, talker.engine, talker.store) == 0


def test_whoever_is_asked_about_memory_first_finds_the_engine_idle(
    talker: Talker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the saved cache untouched until there is an answer."""
    talker.ask(FIRST)
    leave(talker)
    idle(talker.qtbot, talker.engine)
    notes.told.clear()
    turns = (*talker.turns, ("user", "and now?"))
    request = Request("reply", turns, Sampling(), chat=talker.chat, journal=talker.store.path, limit=85)
    small = Machine(10_000, "as given", metal=False)
    monkeypatch.setattr("studio.core.manners.this_machine", lambda: small)
    with talker.qtbot.waitSignal(talker.engine.over_limit, timeout=LONG):
        talker.engine.answer(request)
    with talker.qtbot.waitSignal(talker.engine.models_found, timeout=LONG):
        talker.engine.find_models()
    assert talker.engine.state == "idle" and notes.of("state_changed") == []
    assert talker.ask("and now?").reuse.kept > 0  # type: ignore[union-attr]


def test_nobody_is_asked_about_what_was_stopped_while_it_waited(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Machine(10_000, "as given", metal=False)
    monkeypatch.setattr("studio.core.manners.this_machine", lambda: small)
    asked: list[object] = []
    talker.engine.over_limit.connect(lambda request, _: asked.append(request))
    ended: list[str] = []
    talker.engine.finished.connect(lambda step: ended.append(step.reason))
    held = gate(monkeypatch, lambda step: isinstance(step, TokenStep))
    for limit in (0, 85):
        talker.engine.answer(Request("reply", (("user", FIRST),), Sampling(), limit=limit))
    talker.qtbot.waitUntil(held.reached, timeout=LONG)
    talker.engine.stop()
    held.open()
    talker.qtbot.waitUntil(lambda: len(ended) == 2, timeout=LONG)
    assert ended == ["stopped", "stopped"] and asked == []
