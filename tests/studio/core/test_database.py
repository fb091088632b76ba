"""Files that can't be used: newer, damaged, locked, out of reach. None is ever written over."""

import sqlite3
from pathlib import Path

import pytest

from studio.core import database
from studio.core.store import Store


def kept(path: Path) -> int:
    """A file with one chat; its length."""
    store = Store(path)
    chat = store.new_chat("A kept chat").id
    store.add(chat, None, "user", "hello")
    store.close()
    return path.stat().st_size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "chats.sqlite"
    kept(path)
    return path


def works(store: Store) -> bool:
    """Whatever is kept: a chat can be made and read."""
    chat = store.new_chat("new").id
    store.add(chat, None, "user", "words")
    return [m.text for m in store.conversation(chat).path()] == ["words"] and bool(store.search("words"))


def test_a_good_file_needs_no_words(file: Path) -> None:
    store = Store(file)
    assert (store.keeps, store.notice, len(store.chats())) == (True, "", 1)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_an_empty_file_becomes_a_good_one(tmp_path: Path) -> None:
    (tmp_path / "chats.sqlite").touch()
    store = Store(tmp_path / "chats.sqlite")
    assert store.keeps and works(store)
    store.close()


def test_a_newer_file_is_shown_and_stays_as_it_is(file: Path) -> None:
    with sqlite3.connect(file) as other:
        other.execute(f"PRAGMA user_version = {database.VERSION + 1}")
        other.execute("ALTER TABLE chats ADD COLUMN colour TEXT")
    other.close()
    before = file.read_bytes()
    store = Store(file)
    assert not store.keeps and "newer version" in store.notice
    assert [row.title for row in store.chats()] == ["A kept chat"]
    assert works(store)
    store.close()
    assert file.read_bytes() == before


def test_a_newer_file_this_version_can_t_read(file: Path) -> None:
    with sqlite3.connect(file) as other:
        other.execute(f"PRAGMA user_version = {database.VERSION + 1}")
        other.execute("ALTER TABLE messages RENAME COLUMN text TO words")
    other.close()
    store = Store(file)
    assert not store.keeps and "newer version" in store.notice
    assert store.chats() == [] and works(store)
    store.close()


@pytest.mark.parametrize("harm", ["header", "short", "half", "text", "first page"])
def test_a_damaged_file_is_set_aside_whole(file: Path, harm: str) -> None:
    data = file.read_bytes()
    hurt = {
        "header": b"\x00" * 100 + data[100:], "short": data[:60], "half": data[: len(data) // 2],
        "text": b"{not a database}" * 400, "first page": data[:100] + b"\xff" * 3996 + data[4096:],
    }[harm]  # fmt: skip
    file.write_bytes(hurt)
    store = Store(file)
    (aside,) = file.parent.glob("chats-damaged-*.sqlite")
    assert aside.read_bytes() == hurt
    assert store.keeps and str(aside) in store.notice and store.notice.count(". ") == 0
    assert store.chats() == [] and works(store)
    store.close()
    assert Store(file).notice == ""


def test_a_journal_that_was_not_put_in_yet_is_no_damage(file: Path) -> None:
    """As after a kill: the newest pages are in the journal only."""
    store = Store(file)
    for number in range(50):
        chat = store.new_chat(f"chat {number}").id
        store.add(chat, None, "user", "x" * 5000)
    copy = file.parent / "copy.sqlite"
    copy.write_bytes(file.read_bytes())
    (file.parent / "copy.sqlite-wal").write_bytes((file.parent / "chats.sqlite-wal").read_bytes())
    store.close()
    again = Store(copy)
    assert again.notice == "" and len(again.chats()) == 51
    again.close()


def test_a_locked_file_is_left_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.01)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    store = Store(file)
    assert not store.keeps and "is locked by another program" in store.notice
    assert works(store)
    store.close()
    other.execute("ROLLBACK")
    other.close()
    again = Store(file)
    assert again.keeps and [row.title for row in again.chats()] == ["A kept chat"]
    again.close()


def test_a_folder_in_its_place_or_above_it(tmp_path: Path) -> None:
    (tmp_path / "chats.sqlite").mkdir()
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "chats.sqlite", tmp_path / "file" / "chats.sqlite"):
        store = Store(path)
        assert not store.keeps and "can't be opened" in store.notice and works(store)
        store.close()


def test_a_step_that_fails_leaves_the_old_version(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(file) as other:
        before = other.execute("SELECT name FROM sqlite_master").fetchall()
        other.execute("INSERT INTO chats (title, created, updated) VALUES ('another', 0, 0)")
    other.close()
    # Only a file with more than one chat can't take this step.
    broken = (
        *database.STEPS,
        "CREATE TABLE later (id); CREATE UNIQUE INDEX once ON chats (length(title) > 0)",
    )
    monkeypatch.setattr(database, "STEPS", broken)
    monkeypatch.setattr(database, "VERSION", len(broken))
    store = Store(file)
    assert not store.keeps and "can't be opened" in store.notice
    store.close()
    with sqlite3.connect(file) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (len(broken) - 1,)
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == before


def test_an_older_file_is_brought_up_in_one_go(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "STEPS", (*database.STEPS, "ALTER TABLE chats ADD COLUMN colour TEXT"))
    monkeypatch.setattr(database, "VERSION", len(database.STEPS))
    store = Store(file)
    assert store.keeps and store._connection.execute("SELECT colour FROM chats").fetchall() == [(None,)]
    store.close()


def test_a_file_of_version_1_keeps_its_chats_and_can_have_caches_and_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chats.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(database, "STEPS", database.STEPS[:1])
        patch.setattr(database, "VERSION", 1)
        kept(path)
    with sqlite3.connect(path) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
        assert old.execute("SELECT name FROM sqlite_master WHERE name = 'caches'").fetchone() is None
    old.close()
    store = Store(path)
    ((id, title),) = [(row.id, row.title) for row in store.chats()]
    assert (store.keeps, store.notice, title) == (True, "", "A kept chat")
    do = store._connection
    assert do.execute("PRAGMA user_version").fetchone() == (database.VERSION,)
    do.execute("INSERT INTO caches VALUES (?, 'model', 'plain', 3, 100, 0)", (id,))
    (message,) = store.conversation(id).path()
    store.keep_comparison(message.id, b"compared")
    assert store.comparisons([message.id, 99]) == {message.id: b"compared"}
    store.delete(id)
    assert store.purge() == [id] and do.execute("SELECT count(*) FROM caches").fetchone() == (0,)
    assert store.comparisons([message.id]) == {}
    assert works(store)
    store.close()
