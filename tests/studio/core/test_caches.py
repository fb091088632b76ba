"""Saved caches of chats: what is saved, gone back to, evicted and removed, and what a bad file does."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from studio.core import caches as caches_module
from studio.core.caches import ChatCaches, why_not_kept
from studio.core.messages import StoreError
from studio.core.session import Message, Session
from studio.core.store import Store
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import StorageError
from veloxquant_mlx.steps import FinishedStep

SKVQ = KVCacheConfig(method="skvq", skvq_window=16)
PLAIN = KVCacheConfig(method="plain")
MUCH = 1 << 30
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def caches(store: Store) -> ChatCaches:
    return ChatCaches(store.path, MUCH)


def answer(session: Session, prompt: str, tokens: int = 20) -> FinishedStep:
    *_, last = session.reply(prompt, max_tokens=tokens)
    assert isinstance(last, FinishedStep)
    return last


def saved(caches: ChatCaches, session: Session, store: Store, words: str = "one two three " * 20) -> int:
    """A chat with a saved cache; its number."""
    session.new_chat()
    chat = store.new_chat(words).id
    answer(session, words)
    caches.keep(chat, session)
    return chat


def rows(store: Store) -> dict[int, tuple[Any, ...]]:
    found = store._connection.execute("SELECT chat, model, method, tokens, bytes FROM caches").fetchall()
    return {row[0]: row[1:] for row in found}


def test_a_chat_goes_on_as_if_it_had_never_been_left(
    session: Session, folder: Path, store: Store, caches: ChatCaches
) -> None:
    chat = saved(caches, session, store)
    assert session.model is not None
    size = caches.file(chat).stat().st_size
    assert rows(store) == {
        chat: (session.model.fingerprint, "skvq,skvq_window=16", session.held, size),
    }
    later = Session(SKVQ)
    later.load(folder)
    assert caches.fits(chat, later)
    caches.resume(chat, later)
    first, second = answer(session, "and now?"), answer(later, "and now?")
    assert second.reuse is not None and second.reuse == first.reuse
    assert second.reuse.kept > 100 > second.prompt_tokens and second.reuse.again == 0
    assert second.tokens == first.tokens


def test_an_edited_branch_is_read_as_far_as_its_tokens_differ(
    session: Session, store: Store, caches: ChatCaches
) -> None:
    chat = saved(caches, session, store)
    fresh = Session(SKVQ)
    fresh.model = session.model
    caches.resume(chat, fresh)
    other = [Message("user", "something else altogether " * 10)]
    *_, resumed = fresh.answer(other, max_tokens=12)
    session.new_chat()
    *_, whole = session.answer(other, max_tokens=12)
    assert isinstance(resumed, FinishedStep) and isinstance(whole, FinishedStep)
    assert resumed.tokens == whole.tokens


def test_another_model_or_setting_does_not_fit_and_stays_saved(
    session: Session, store: Store, caches: ChatCaches, tmp_path: Path
) -> None:
    chat = saved(caches, session, store)
    session.configure(PLAIN)
    assert not caches.fits(chat, session)
    other = Session(SKVQ)
    assert not caches.fits(chat, other)
    other.load(tiny_folder(tmp_path / "other", seed=1, num_hidden_layers=2))
    assert not caches.fits(chat, other)
    assert not caches.fits(chat + 1, session)
    assert caches.file(chat).exists() and chat in rows(store)


def test_words_that_mean_another_setting_now_are_not_trusted(
    session: Session, store: Store, caches: ChatCaches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update that changed a preset of the same name."""
    chat = saved(caches, session, store)
    monkeypatch.setattr(caches_module, "spell_method", lambda _: "skvq,skvq_window=16")
    session.configure(dataclasses.replace(SKVQ, skvq_window=32))
    assert caches.fits(chat, session)
    caches.resume(chat, session)
    assert (session.config, session.held) == (dataclasses.replace(SKVQ, skvq_window=32), 0)
    assert not caches.file(chat).exists()


@pytest.mark.parametrize("harm", ["cut", "foreign", "flipped", "empty"])
def test_a_damaged_file_is_removed_with_a_line_in_the_log(
    session: Session, store: Store, caches: ChatCaches, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    chat = saved(caches, session, store)
    file, data = caches.file(chat), caches.file(chat).read_bytes()
    hurt = {
        "cut": data[: len(data) // 2], "foreign": b"nothing of the kind" * 100, "empty": b"",
        "flipped": data[:-200] + bytes([data[-200] ^ 1]) + data[-199:],
    }[harm]  # fmt: skip
    file.write_bytes(hurt)
    messages, held = list(session.messages), session.held
    caches.resume(chat, session)
    assert (session.messages, session.held) == (messages, held)
    assert not file.exists() and rows(store) == {}
    assert f"saved cache of chat {chat} is removed" in caplog.text


def test_a_file_that_is_gone_fits_nothing(session: Session, store: Store, caches: ChatCaches) -> None:
    chat = saved(caches, session, store)
    caches.file(chat).unlink()
    assert not caches.fits(chat, session)


def test_the_longest_unused_goes_first(session: Session, store: Store, caches: ChatCaches) -> None:
    chats = [saved(caches, session, store) for _ in range(3)]
    sizes = [caches.file(chat).stat().st_size for chat in chats]
    assert caches.tidy() == sum(sizes)
    caches.resume(chats[0], session)
    assert caches.tidy(sum(sizes) - 1) == sizes[0] + sizes[2]
    assert sorted(rows(store)) == [chats[0], chats[2]]
    # A new one makes room for itself.
    tight = ChatCaches(store.path, sum(sizes) - 1)
    newest = saved(tight, session, store)
    tight.tidy()
    assert sorted(rows(store)) == [chats[0], newest]
    assert not caches.file(chats[2]).exists()


def test_nothing_is_saved_with_a_limit_of_0_nor_what_is_larger_than_the_limit(
    session: Session, store: Store, caches: ChatCaches
) -> None:
    kept = saved(caches, session, store)
    resident = session.snapshot().resident_bytes  # type: ignore[union-attr]
    for limit in (resident - 1, 0):
        small = ChatCaches(store.path, limit)
        chat = saved(small, session, store)
        assert not small.file(chat).exists() and sorted(rows(store)) == [kept]
    assert small.tidy() == 0
    assert rows(store) == {} and not caches.file(kept).exists()


def test_nothing_held_is_nothing_saved(session: Session, store: Store, caches: ChatCaches) -> None:
    chat = saved(caches, session, store)
    before = caches.file(chat).read_bytes()
    session.new_chat()
    caches.keep(chat, session)
    assert caches.file(chat).read_bytes() == before


def test_the_file_of_a_deleted_chat_goes_when_the_chat_does(
    session: Session, store: Store, caches: ChatCaches
) -> None:
    chat, other = saved(caches, session, store), saved(caches, session, store)
    store.delete(chat)
    caches.tidy()
    store.restore(chat)
    assert caches.fits(chat, session)
    store.delete(chat)
    store.purge()
    assert caches.tidy() == caches.file(other).stat().st_size
    assert not caches.file(chat).exists() and list(rows(store)) == [other]
    # Whoever still has it in memory does not bring it back.
    caches.keep(chat, session)
    assert not caches.file(chat).exists()


def test_only_leftovers_are_swept(session: Session, store: Store, caches: ChatCaches) -> None:
    chat = saved(caches, session, store)
    place = caches.file(chat).parent
    old, new, foreign = place / ".9.safetensors.a.part", place / ".9.safetensors.b.part", place / "notes.txt"
    for path in (old, new, foreign):
        path.write_text("x")
    os.utime(old, (time.time() - 7200,) * 2)
    caches.tidy()
    assert sorted(place.iterdir()) == sorted([new, foreign, caches.file(chat)])


class _FullDisk:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_leaves_the_file_of_before(
    session: Session, store: Store, caches: ChatCaches, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = saved(caches, session, store)
    before = caches.file(chat).read_bytes()
    answer(session, "more")
    real = mx.save_safetensors
    with monkeypatch.context() as patch:
        patch.setattr(mx, "save_safetensors", lambda file, *more: real(_FullDisk(file), *more))
        with pytest.raises(StorageError) as caught:
            caches.keep(chat, session)
    assert why_not_kept(caught.value).startswith("The disk is full, so the cache of this chat is not saved")
    assert caches.file(chat).read_bytes() == before
    assert [path.name for path in caches.file(chat).parent.iterdir()] == [f"{chat}.safetensors"]
    session.new_chat()
    caches.resume(chat, session)
    assert session.held


def test_a_folder_that_can_t_be_made_and_a_store_that_can_t_be_used(
    session: Session, store: Store, caches: ChatCaches, tmp_path: Path
) -> None:
    chat = store.new_chat("words").id
    answer(session, "words")
    caches.file(chat).parent.write_text("in the way")
    with pytest.raises(StorageError) as refused:
        caches.keep(chat, session)
    assert "can't be saved, the log says why" in why_not_kept(refused.value)
    (tmp_path / "bad.sqlite").write_text("no database" * 100)
    with pytest.raises(StoreError):
        ChatCaches(tmp_path / "bad.sqlite", MUCH).fits(chat, session)


def test_a_kill_while_saving_leaves_a_whole_file(
    session: Session, folder: Path, store: Store, caches: ChatCaches
) -> None:
    """The killed one saves the same chat over and over, now shorter, now longer."""
    chat = saved(caches, session, store)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.studio.core.test_caches", str(folder), str(store.path), str(chat)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(7)] == ["saved\n"] * 7
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    session.new_chat()
    assert caches.fits(chat, session)
    caches.resume(chat, session)
    assert session.held and caches.file(chat).exists()


def _save_without_end(folder: Path, store: Path, chat: int) -> None:
    session, caches = Session(SKVQ), ChatCaches(store, MUCH)
    session.load(folder)
    while True:
        session.new_chat()
        for _ in range(2):
            answer(session, "one two three " * 10)
            caches.keep(chat, session)
            print("saved", flush=True)


if __name__ == "__main__":
    _save_without_end(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
