"""Opening the one SQLite file: its schema, its versions, and what happens to a file that can't be used.

A file that is newer, damaged or locked is never written over. What takes its place works just the same,
in memory or in a fresh file, and one sentence says so.
"""

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
"""How long a write waits for another instance's: theirs take milliseconds."""

STEPS = (
    """
    CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        leaf INTEGER,
        tokens INTEGER,
        place TEXT,
        system TEXT NOT NULL DEFAULT '',
        sampling TEXT,
        deleted REAL
    );
    CREATE INDEX chats_by_time ON chats (updated DESC, id DESC) WHERE deleted IS NULL;
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        parent INTEGER REFERENCES messages (id),
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        files TEXT,
        ended TEXT,
        figures TEXT,
        created REAL NOT NULL
    );
    CREATE INDEX messages_by_chat ON messages (chat);
    CREATE INDEX messages_by_parent ON messages (parent);
    CREATE INDEX messages_growing ON messages (id) WHERE role = 'assistant' AND ended IS NULL;
    CREATE TABLE pieces (
        id INTEGER PRIMARY KEY,
        message INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        text TEXT NOT NULL
    );
    CREATE INDEX pieces_by_message ON pieces (message);
    CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE VIRTUAL TABLE said USING fts5 (
        text, content='', prefix='1 2 3', tokenize='unicode61 remove_diacritics 2'
    );
    CREATE VIRTUAL TABLE titled USING fts5 (
        text, content='', prefix='1 2 3', tokenize='unicode61 remove_diacritics 2'
    );
    """,
    """
    CREATE TABLE caches (
        chat INTEGER PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
        model TEXT NOT NULL,
        method TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        used REAL NOT NULL
    );
    """,
    """
    CREATE TABLE comparisons (
        message INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
        bytes INTEGER NOT NULL,
        packed BLOB NOT NULL
    );
    """,
)
"""Step N brings a file of version N to version N + 1. Steps that were released are never changed."""

VERSION = len(STEPS)


@dataclass(slots=True)
class Opened:
    """A connection that works, whatever the file was like."""

    connection: sqlite3.Connection
    keeps: bool
    """False when what is written is gone with the app."""
    notice: str = ""
    """What the person should know, one sentence, or nothing."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that ``open_database`` found good; for a second thread of this process."""
    return _prepared(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None))


def open_database(path: Path) -> Opened:
    """Open or make the database at ``path``; never raises for what the file is like."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _is_damaged(path):
            return _fresh(path)
        connection = connect(path)
        try:
            version = _version(connection)
            if version > VERSION:
                connection.close()
                return _copy_of(path)
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection)
            _look_around(connection)
        except BaseException:
            connection.close()
            raise
        return Opened(connection, keeps=True)
    except sqlite3.Error as error:
        if is_damage(error):
            return _fresh(path)
        _log.warning("%s: %s", path, error)
        if "locked" in str(error) or "busy" in str(error):
            reason = "is locked by another program: end that program and start the app again"
        else:
            reason = f"can't be opened ({error}): make its folder writable and start the app again"
    except OSError as error:
        _log.warning("%s: %s", path, error)
        reason = f"can't be opened ({error.strerror}): make its folder writable and start the app again"
    return _in_memory(f"The file of your chats, {path}, {reason}; until then nothing you write is kept.")


def retreat(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A connection to memory that holds what can still be read of a file; the old one is closed."""
    memory = _prepared(sqlite3.connect(":memory:", isolation_level=None))
    try:
        connection.backup(memory)
        _look_around(memory)
    except sqlite3.Error as error:
        _log.warning("Nothing could be read any more: %s", error)
        memory.close()
        memory = _in_memory("").connection
        # The messages that the next ones belong to are on the screen only.
        memory.execute("PRAGMA foreign_keys = OFF")
    with contextlib.suppress(sqlite3.Error):
        connection.close()
    return memory


def is_damage(error: sqlite3.Error) -> bool:
    """True for errors that say the file itself is broken."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def suspect(path: Path) -> None:
    """Have the file looked at closely at the next start: reading it failed."""
    with contextlib.suppress(OSError):
        _mark(path).touch()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, in turn with other instances. Nests: only the outermost one commits."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def text_in(text: str) -> bytes:
    """Text for ``CAST(? AS TEXT)``: a lone surrogate has no UTF-8 form and comes back all the same."""
    return text.encode("utf-8", "surrogatepass")


def _text_out(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.text_factory = _text_out
    connection.execute("PRAGMA foreign_keys = ON")
    # A kill loses nothing with NORMAL; only a power cut can cost the last moments, never the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -16000")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to this version, in one transaction: another instance sees before or after."""
    if _version(connection) == VERSION:
        return
    with transaction(connection):
        for number in range(_version(connection), VERSION):
            for statement in STEPS[number].split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _look_around(connection: sqlite3.Connection) -> None:
    """Read a little of everything, so that a file broken there is noticed now."""
    for table in ("chats", "messages", "pieces", "settings"):
        connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()
    connection.execute("SELECT id FROM messages ORDER BY id DESC LIMIT 1").fetchone()


def _is_damaged(path: Path) -> bool:
    """What can be told without reading all of a file that is there: header, length, an earlier failure."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
        return True
    journal = path.with_name(path.name + "-wal")
    if not journal.exists() or journal.stat().st_size == 0:
        # With a journal beside it, pages may still be waiting to be put in.
        page = int.from_bytes(header[16:18], "big")
        size = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
        if path.stat().st_size < size:
            return True
    if not _mark(path).exists():
        return False
    with contextlib.closing(connect(path)) as connection:
        try:
            whole = connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            whole = False
    _mark(path).unlink(missing_ok=True)
    return not whole


def _mark(path: Path) -> Path:
    return path.with_name(path.name + "-suspect")


def _fresh(path: Path) -> Opened:
    """Set a damaged file aside with everything that belongs to it, and begin a new one."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.stem}-damaged-{stamp}-{number}{path.suffix}")
    os.rename(path, aside)
    for ending in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(path.with_name(path.name + ending), aside.with_name(aside.name + ending))
    _mark(path).unlink(missing_ok=True)
    _log.warning("%s is damaged and was set aside as %s", path, aside)
    opened = open_database(path)
    opened.notice = opened.notice or (
        f"The file of your chats was damaged and is kept as {aside}; a new, empty one was begun."
    )
    return opened


def _copy_of(path: Path) -> Opened:
    """The content of a newer file in memory, where this version can read it."""
    sentence = (
        f"Your chats in {path} were kept by a newer version of the app; update this one to go on with them. "
        "Until then nothing you write is kept."
    )
    opened = _in_memory(sentence)
    memory = _prepared(sqlite3.connect(":memory:", isolation_level=None))
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=WAIT_SECONDS)
        with contextlib.closing(source):
            source.backup(memory)
        _look_around(memory)
        memory.execute("SELECT title, updated, leaf, place, system, sampling, deleted FROM chats LIMIT 1")
        memory.execute("SELECT chat, parent, role, text, files, ended, figures FROM messages LIMIT 1")
    except sqlite3.Error as error:
        _log.warning("%s: %s", path, error)
        memory.close()
        return opened
    opened.connection.close()
    return Opened(memory, keeps=False, notice=sentence)


def _in_memory(sentence: str) -> Opened:
    connection = _prepared(sqlite3.connect(":memory:", isolation_level=None))
    _migrate(connection)
    return Opened(connection, keeps=False, notice=sentence)
