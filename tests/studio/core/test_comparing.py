"""Replies of a session compared with what the uncompressed cache would have said."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from studio.core import comparing
from studio.core.compared import Comparison
from studio.core.comparing import Listener, Said, compare
from studio.core.session import Message, Session
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import KeptRows, ReplayStep, Spoken
from veloxquant_mlx.generation import GREEDY

SKVQ = KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=2, skvq_bits_value=2)
PLAIN = KVCacheConfig(method="plain")
LONG = "one two three four five six seven " * 6


@pytest.fixture
def session(folder: Path) -> Session:
    made = Session(SKVQ)
    made.load(folder)
    made.listener = Listener()
    made.listener.on = True
    return made


def say(session: Session, prompt: str, message: int, tokens: int = 24) -> str:
    assert session.listener is not None
    session.listener.message = message
    *_, end = session.reply(prompt, max_tokens=tokens, sampling=GREEDY)
    return end.text


def compared(session: Session) -> list[ReplayStep | Comparison]:
    assert session.model is not None and session.listener is not None
    return list(compare(session.model, session.listener, session.tokens, session.config))


def the_comparison(session: Session) -> Comparison:
    *steps, end = compared(session)
    assert isinstance(end, Comparison)
    assert all(isinstance(step, ReplayStep) for step in steps)
    return end


def test_a_reply_is_compared_token_by_token(session: Session) -> None:
    text = say(session, LONG, 7)
    held = session.tokens
    found = the_comparison(session)
    (reply,) = found.replies
    assert (found.tokens, found.config, reply.message, reply.offset) == (len(held), SKVQ, 7, 0)
    chosen = [token.token for token in reply.fidelity.tokens]
    assert chosen == held[-len(chosen) :]
    assert reply.fidelity.start + reply.fidelity.length == len(held)
    assert reply.ends[-1] <= len(text) and list(reply.ends) == sorted(reply.ends)
    model = session.model
    assert model is not None
    exact = np.array(model.model(mx.array(held)[None])[0].astype(mx.float32))
    tops = exact.argmax(axis=-1)[reply.fidelity.start - 1 : -1]
    assert [token.top for token in reply.fidelity.tokens] == tops.tolist()
    assert reply.tops == tuple(model.tokenizer.decode([top]) for top in tops.tolist())
    assert [slot.slot for slot in found.slots] == [0, 1, 2]
    assert all(slot.attention_error for slot in found.slots)


def test_the_text_of_every_token_lies_where_its_end_says(session: Session) -> None:
    text = say(session, LONG, 1)
    (reply,) = the_comparison(session).replies
    begins = [0, *reply.ends[:-1]]
    for begin, end, piece in zip(begins, reply.ends, reply.pieces, strict=True):
        if "\ufffd" not in piece and text[begin:end]:
            assert text[begin:end] in (piece, piece.lstrip())


def test_the_live_cache_is_not_touched(session: Session) -> None:
    say(session, LONG, 1)
    before = session.snapshot()
    the_comparison(session)
    after = session.snapshot()
    assert before is not None and after is not None and before.layers == after.layers
    beside = Session(SKVQ)
    beside.model = session.model
    list(beside.reply(LONG, max_tokens=24))
    *_, second = beside.reply("and on", max_tokens=12)
    *_, end = session.reply("and on", max_tokens=12)
    assert end.tokens == second.tokens


def split(said: Said, at: int) -> list[Said]:
    """The same reply as two that follow one another."""
    found = []
    for message, first, last in ((1, 0, at), (2, at, len(said.ends))):
        rows = KeptRows()
        for row in said.spoken.rows.read(first, last):
            rows.add(row)
        spoken = Spoken(said.spoken.start + first, said.spoken.tokens[first:last], rows)
        held = said.held[: said.spoken.start + last]
        found.append(Said(message, 0, said.ends[first:last], held, said.config, spoken))
    return found


def test_what_was_interrupted_is_compared_with_the_next(session: Session) -> None:
    say(session, LONG, 1)
    assert session.model is not None and session.listener is not None
    steps = compare(session.model, session.listener, session.tokens, session.config)
    assert isinstance(next(steps), ReplayStep)
    steps.close()  # type: ignore[attr-defined]
    (waiting,) = session.listener.waiting
    session.listener._waiting = split(waiting, 10)
    both = the_comparison(session)
    assert [reply.message for reply in both.replies] == [1, 2]
    assert session.listener.waiting == ()
    assert compared(session) == []
    session.listener._waiting = [waiting]
    (whole,) = the_comparison(session).replies
    parts = [token for reply in both.replies for token in reply.fidelity.tokens]
    assert [token.kl for token in parts] == pytest.approx([t.kl for t in whole.fidelity.tokens], abs=1e-6)
    assert [token.rank for token in parts] == [token.rank for token in whole.fidelity.tokens]


def test_a_branch_that_was_left_is_not_compared(session: Session) -> None:
    say(session, LONG, 1)
    assert session.listener is not None
    session.listener.message = 2
    list(session.answer([Message("user", "something else " * 9)], max_tokens=20))
    found = the_comparison(session)
    assert [reply.message for reply in found.replies] == [2]


def test_a_reply_that_goes_on_counts_its_characters_from_where_it_does(session: Session) -> None:
    text = say(session, LONG, 5)
    the_comparison(session)
    assert session.listener is not None
    session.listener.message = 5
    list(session.answer(session.messages, max_tokens=20))
    (reply,) = the_comparison(session).replies
    assert (reply.message, reply.offset) == (5, len(text))
    assert reply.ends[0] >= len(text)


def test_nothing_is_kept_without_compression_nor_when_switched_off(session: Session) -> None:
    assert session.listener is not None
    session.configure(PLAIN)
    say(session, LONG, 1)
    assert compared(session) == []
    session.configure(SKVQ)
    session.listener.on = False
    say(session, "more", 2)
    assert compared(session) == []


def test_a_model_with_nothing_to_compress_has_nothing_to_compare(tmp_path: Path) -> None:
    made = Session(SKVQ)
    made.load(tiny_folder(tmp_path / "mamba", "mamba2"))
    made.listener = Listener()
    made.listener.on = True
    say(made, LONG, 1)
    assert len(made.listener.waiting) == 1
    assert compared(made) == []
    assert made.listener.waiting == ()


def test_a_new_chat_forgets(session: Session) -> None:
    say(session, LONG, 1)
    session.new_chat()
    assert session.listener is not None and session.listener.waiting == ()


def test_replies_that_never_get_their_turn_are_bounded(session: Session) -> None:
    assert session.listener is not None
    for number in range(1, comparing.MOST + 3):
        say(session, "more words to read here", number, tokens=3)
    waiting = [said.message for said in session.listener.waiting]
    assert waiting == list(range(3, comparing.MOST + 3))


def test_too_little_memory_is_a_sentence(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, LONG, 1)
    monkeypatch.setattr(comparing, "free_memory", lambda: 1000)
    monkeypatch.setattr(mx, "get_cache_memory", lambda: 0)
    with pytest.raises(VeloxQuantError, match="Not compared: the uncompressed cache of"):
        compared(session)
