"""Comparing on the engine's thread: after replies, behind everything else, and without a trace in them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from studio.core import comparing
from studio.core import session as session_module
from studio.core.request import Request
from studio.ui.find_dialog import FindDialog
from studio.ui.idle_work import NOTHING_READ, NOTHING_TRIED
from tests.studio.ui.worker import LONG, Notes, Speaker
from veloxquant_mlx import live as live_module
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep

SKVQ = KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=2)
PROMPT = "word and " * 30


@pytest.fixture(autouse=True)
def short_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    real = live_module.generate

    def short(*arguments: Any, **words: Any) -> Any:
        return real(*arguments, **(words | {"max_tokens": 16}))

    monkeypatch.setattr(live_module, "generate", short)


@pytest.fixture
def engine(qtbot: QtBot, folder: Path) -> Iterator[Speaker]:
    made = Speaker()
    made.notes = Notes(made)  # type: ignore[attr-defined]
    with qtbot.waitSignal(made.methods_ready, timeout=LONG):
        made.start()
    made.configure(SKVQ)
    made.compare(True)
    with qtbot.waitSignal(made.loaded, timeout=LONG):
        made.load(str(folder))
    qtbot.waitUntil(lambda: made.state == "idle", timeout=LONG)
    yield made
    made.close()


@pytest.fixture
def notes(engine: Speaker) -> Notes:
    return engine.notes  # type: ignore[attr-defined,no-any-return]


def ask(engine: Speaker, prompt: str, message: int) -> None:
    engine.answer(Request("reply", (("user", prompt),), Sampling(), message=message))


class Holding:
    """In place of ``replay``: the engine's thread waits behind the first pass until ``open``."""

    def __init__(self) -> None:
        self.real = comparing.replay
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any, **words: Any) -> Iterator[Any]:
        for step in self.real(*arguments, **words):
            yield step
            if not self.opened.is_set():
                self.reached.set()
                assert self.opened.wait(LONG / 1000)


def held_comparison(qtbot: QtBot, engine: Speaker, monkeypatch: pytest.MonkeyPatch) -> Holding:
    """A reply whose comparison waits behind its first pass."""
    held = Holding()
    monkeypatch.setattr(comparing, "replay", held)
    ask(engine, PROMPT, 1)
    qtbot.waitUntil(held.reached.is_set, timeout=LONG)
    return held


def test_a_reply_is_compared_after_its_end(qtbot: QtBot, engine: Speaker, notes: Notes) -> None:
    with qtbot.waitSignal(engine.compared, timeout=LONG) as told:
        ask(engine, PROMPT, 3)
    (found,) = told.args
    (end,) = notes.of("finished")[0]
    assert isinstance(end, FinishedStep)
    assert [reply.message for reply in found.replies] == [3]
    assert [t.token for t in found.replies[0].fidelity.tokens] == list(end.tokens)
    assert found.tokens == end.prompt_tokens + end.reply_tokens
    names = notes.names()
    assert names.index("finished") < names.index("comparing") < names.index("compared")
    steps = [step for (step,) in notes.of("comparing") if step is not None]
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert notes.of("comparing")[-1] == (None,)
    assert engine.state == "idle", "nobody has to wait for it"


def test_a_new_prompt_comes_first(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = held_comparison(qtbot, engine, monkeypatch)
    ask(engine, "something else " * 9, 2)
    with qtbot.waitSignal(engine.compared, timeout=LONG) as told:
        held.opened.set()
    names = notes.names()
    second = len(names) - 1 - names[::-1].index("finished")
    assert "compared" not in names[:second], "the prompt did not wait for the comparison"
    assert [reply.message for reply in told.args[0].replies] == [2]


def test_replies_are_the_same_with_and_without(qtbot: QtBot, engine: Speaker, notes: Notes) -> None:
    for message in (1, 2):
        with qtbot.waitSignal(engine.compared, timeout=LONG):
            ask(engine, PROMPT, message)
    engine.compare(False)
    with qtbot.waitSignal(engine.finished, timeout=LONG):
        ask(engine, PROMPT, 3)
    assert len({end.tokens for (end,) in notes.of("finished")}) == 1
    assert len(notes.of("compared")) == 2


def test_switching_off_ends_what_runs(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = held_comparison(qtbot, engine, monkeypatch)
    engine.compare(False)
    held.opened.set()
    with qtbot.waitSignal(engine.models_found, timeout=LONG):
        engine.find_models()
    assert notes.of("compared") == []
    assert notes.of("comparing")[-1] == (None,)


def test_what_can_t_be_compared_is_said_once(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "ROOM", 0.0)
    with qtbot.waitSignal(engine.noted, timeout=LONG) as told:
        ask(engine, PROMPT, 1)
    assert told.args[0].startswith("Not compared: the uncompressed cache")
    assert notes.of("failed") == []
    with qtbot.waitSignal(engine.models_found, timeout=LONG):
        engine.find_models()
    assert len(notes.of("noted")) == 1


def test_closing_does_not_wait_for_the_comparison(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = held_comparison(qtbot, engine, monkeypatch)
    held.opened.set()
    engine.close()
    assert engine._thread.isFinished()


def test_a_setting_is_tried_between_replies(qtbot: QtBot, engine: Speaker, notes: Notes) -> None:
    with qtbot.waitSignal(engine.compared, timeout=LONG):
        ask(engine, PROMPT, 1)
    wanted = KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=8, skvq_bits_value=8)
    engine.try_setting(SKVQ)
    engine.try_setting(wanted)
    qtbot.waitUntil(
        lambda: any(t.config == wanted and t.measured == t.slots == 3 for (t,) in notes.of("tried")),
        timeout=LONG,
    )
    last = notes.of("tried")[-1][0]
    compared = notes.of("compared")[0][0]
    assert last.error < sum(slot.attention_error for slot in compared.slots) / 3, "8 bits are nearer than 2"


def test_a_setting_moved_before_anything_is_in_the_cache_is_tried_after_the_reply(
    qtbot: QtBot, engine: Speaker, notes: Notes
) -> None:
    with qtbot.waitSignal(engine.tried, timeout=LONG) as told:
        engine.try_setting(SKVQ)
    assert told.args == [NOTHING_TRIED]
    ask(engine, PROMPT, 1)
    qtbot.waitUntil(lambda: getattr(notes.of("tried")[-1][0], "measured", 0) == 3, timeout=LONG)


def test_a_setting_that_can_t_be_tried_says_why_where_its_answer_is_awaited(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.compare(False)
    with qtbot.waitSignal(engine.finished, timeout=LONG):
        ask(engine, PROMPT, 1)
    monkeypatch.setattr(comparing, "ROOM", 0.0)
    with qtbot.waitSignal(engine.tried, timeout=LONG) as told:
        engine.try_setting(SKVQ)
    assert "close other programs" in told.args[0]
    assert notes.of("noted") == []


def test_a_search_is_held_up_by_a_reply_and_goes_on(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from studio.core import what_if

    monkeypatch.setattr(what_if, "LEAST", 32)
    monkeypatch.setattr(what_if, "WIDTHS", (2, 8))
    with qtbot.waitSignal(engine.compared, timeout=LONG):
        ask(engine, PROMPT, 1)
    with qtbot.waitSignal(engine.finding, timeout=LONG):
        engine.find_smallest(0.01)
    with qtbot.waitSignal(engine.finished, timeout=LONG):
        ask(engine, PROMPT, 2)
    qtbot.waitUntil(lambda: any(f is not None and f.complete for (f,) in notes.of("finding")), timeout=LONG)
    found = [f for (f,) in notes.of("finding") if f is not None]
    assert [f.done for f in found] == sorted(f.done for f in found), "it did not begin anew"


def test_another_chat_ends_a_search(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from studio.core import what_if

    monkeypatch.setattr(what_if, "LEAST", 32)
    with qtbot.waitSignal(engine.finished, timeout=LONG):
        ask(engine, PROMPT, 1)
    with qtbot.waitSignal(engine.finding, timeout=LONG):
        engine.find_smallest(0.01)
    engine.new_chat()
    qtbot.waitUntil(lambda: (None,) in notes.of("finding"), timeout=LONG)
    count = len(notes.of("finding"))
    with qtbot.waitSignal(engine.models_found, timeout=LONG):
        engine.find_models()
    assert len(notes.of("finding")) == count


def test_answers_side_by_side_leave_the_conversation_alone(
    qtbot: QtBot, engine: Speaker, notes: Notes
) -> None:
    with qtbot.waitSignal(engine.compared, timeout=LONG):
        ask(engine, PROMPT, 1)
    short = Sampling(max_tokens=16)
    engine.side_by_side((("user", "something else"),), (KVCacheConfig("plain"), SKVQ), short)
    qtbot.waitUntil(lambda: (None,) in notes.of("answered"), timeout=LONG)
    whole = [answer for (answer,) in notes.of("answered") if answer is not None and answer.whole]
    assert [answer.config for answer in whole] == [KVCacheConfig("plain"), SKVQ]
    with qtbot.waitSignal(engine.finished, timeout=LONG) as again:
        ask(engine, PROMPT, 2)
    end = again.args[0]
    assert end.reuse.kept > 0, "the cache of the conversation was not given up"
    assert end.tokens == notes.of("finished")[0][0].tokens


def test_a_search_without_a_conversation_says_so_and_waits_for_nothing(
    qtbot: QtBot, engine: Speaker, notes: Notes
) -> None:
    with qtbot.waitSignal(engine.finding, timeout=LONG):
        engine.find_smallest(0.01)
    assert notes.of("finding") == [(NOTHING_READ,)]
    behind = QWidget()
    qtbot.addWidget(behind)
    dialog = FindDialog(behind)
    dialog.button.click()
    assert dialog.running
    dialog.show_finding(NOTHING_READ)
    assert (dialog.words.text(), dialog.running, dialog.button.text()) == (NOTHING_READ, False, "Search")


def test_a_setting_that_moves_while_the_conversation_is_read_again_is_estimated_at_once(
    qtbot: QtBot, engine: Speaker, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with qtbot.waitSignal(engine.compared, timeout=LONG):
        ask(engine, PROMPT, 1)
    held = Holding()
    held.real = session_module.prefill  # type: ignore[assignment]
    monkeypatch.setattr(session_module, "prefill", held)
    other, wanted = (KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=bits) for bits in (3, 8))
    engine.configure(other)
    qtbot.waitUntil(held.reached.is_set, timeout=LONG)
    engine.try_setting(SKVQ)
    engine.try_setting(wanted)
    with qtbot.waitSignal(engine.configured, timeout=LONG):
        held.opened.set()
    names = notes.names()
    before_its_end = names[: len(names) - names[::-1].index("configured")].count("tried")
    tried = [found for (found,) in notes.of("tried")[:before_its_end]]
    assert {found.config for found in tried} == {wanted}, "only the newest"
    assert len(tried[-1].errors) == tried[-1].slots == 3
