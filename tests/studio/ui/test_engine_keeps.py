"""What the engine's thread writes to the store while a reply grows, and how a full context is met."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from studio.core import fitting
from studio.core.request import Request
from studio.core.store import Store
from tests.studio.ui.test_engine import engine, gate, idle, notes, ready
from tests.studio.ui.worker import LONG, Notes, Speaker
from veloxquant_mlx import prompt
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import TokenStep

__all__ = ["engine", "notes", "ready"]

SHORT = Sampling(max_tokens=16)


def asked(store: Store, text: str = "hello there") -> Request:
    """A kept question and the request to answer it."""
    chat = store.new_chat(text).id
    user = store.add(chat, None, "user", text)
    reply = store.add(chat, user.id, "assistant", "")
    return Request("reply", (("user", text),), SHORT, message=reply.id, journal=store.path, model="Tiny")


def test_each_token_is_on_disk_before_it_is_on_the_screen(
    qtbot: QtBot,
    ready: Speaker,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = gate(monkeypatch, lambda step: isinstance(step, TokenStep) and step.count == 9)
    request = asked(store)
    ready.answer(request)
    qtbot.waitUntil(held.reached, timeout=LONG)
    shown = "".join(step.text for step in ready.drain() if isinstance(step, TokenStep))
    with sqlite3.connect(store.path) as other:
        other.text_factory = bytes
        rows = other.execute("SELECT text FROM pieces ORDER BY id").fetchall()
    other.close()
    assert b"".join(text for (text,) in rows).decode() == shown
    with qtbot.waitSignal(ready.finished, timeout=LONG) as end:
        held.open()
    idle(qtbot, ready)
    message = store.conversation(store.chats()[0].id)[request.message]
    assert (message.text, message.ended) == (end.args[0].text, "length")
    assert (message.figures.reply_tokens, message.figures.model) == (16, "Tiny")


def test_a_reply_goes_on_in_its_own_row(qtbot: QtBot, ready: Speaker, store: Store) -> None:
    request = asked(store)
    with qtbot.waitSignal(ready.finished, timeout=LONG) as first:
        ready.answer(request)
    text = first.args[0].text
    more = Request(
        "continue", (*request.turns, ("assistant", text)), SHORT, message=request.message, journal=store.path
    )
    with qtbot.waitSignal(ready.finished, timeout=LONG) as second:
        ready.answer(more)
    idle(qtbot, ready)
    message = store.conversation(store.chats()[0].id)[request.message]
    assert message.text == text + second.args[0].text


def test_a_store_that_can_t_be_written_stops_no_reply(
    qtbot: QtBot,
    ready: Speaker,
    notes: Notes,
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.sqlite").write_text("no database")
    with qtbot.waitSignal(ready.finished, timeout=LONG) as end:
        ready.answer(
            Request("reply", (("user", "hello"),), SHORT, message=1, journal=tmp_path / "bad.sqlite")
        )
    assert end.args[0].reply_tokens == 16 and notes.of("failed") == []


def test_the_oldest_messages_are_left_out_when_the_context_is_full(
    qtbot: QtBot,
    ready: Speaker,
    notes: Notes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Any] = []
    real = fitting.encode

    def noting(tokenizer: Any, turns: Any) -> Any:
        read.append(turns)
        return real(tokenizer, turns)

    monkeypatch.setattr(fitting, "encode", noting)
    long = [(("user", "assistant")[n % 2], f"{n} " + "word " * 300) for n in range(5)]
    turns = (("system", "Be brief."), *long)
    with qtbot.waitSignal(ready.failed, timeout=LONG) as refused:
        ready.answer(Request("reply", turns, SHORT))
    assert fitting.LEAVE_OUT in refused.args[1]
    with qtbot.waitSignal(ready.finished, timeout=LONG):
        ready.answer(Request("reply", turns, SHORT, drop=True))
    assert notes.of("dropped") == [(4,)]
    assert [role for role, _ in read[-1]] == ["system", "user"] and read[-1][1][1].startswith("4 ")
    # Of a message that is too long by itself nothing can be left out.
    with qtbot.waitSignal(ready.failed, timeout=LONG) as refused:
        ready.answer(Request("reply", (("user", "word " * 4200),), SHORT))
    assert fitting.LEAVE_OUT not in refused.args[1] and prompt.SHORTER in refused.args[1]


def test_tokens_are_counted_where_a_model_is_loaded(
    qtbot: QtBot,
    engine: Speaker,
    folder: Path,
    notes: Notes,
) -> None:
    engine.count("early", "one")
    engine.load(str(folder))
    engine.count("key", "hello there")
    qtbot.waitUntil(lambda: bool(notes.of("counted")), timeout=LONG)
    ((key, tokens),) = notes.of("counted")
    assert key == "key" and tokens > 1
