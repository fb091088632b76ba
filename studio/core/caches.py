"""Caches of chats on disk: a file each beside the store, a row that tells what it fits, a limit for them all.

A file is only ever a shortcut: whatever is wrong with it, the chat is read again. The order of writing keeps
a kill harmless: the row stands before its file comes, and a file goes before its row.
"""

import contextlib
import errno
import logging
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from studio.core.messages import connected, doing
from veloxquant_mlx.errors import StorageError
from veloxquant_mlx.spelling import spell_method

if TYPE_CHECKING:
    from studio.core.session import Session

_log = logging.getLogger(__name__)

FOLDER = "caches"
_ENDING = ".safetensors"
_LEFT_OVER = 3600.0
"""Seconds after which the unfinished file of a writer is that of a killed one."""


class ChatCaches:
    """Belongs to the engine's thread; other instances may use the same folder.

    Everything raises StoreError where the rows can't be used, and StorageError where a file can't be written.
    """

    def __init__(self, store: Path, limit: int) -> None:
        """``store`` is the file of chats; all saved caches together take ``limit`` bytes, 0 saves none."""
        self._store, self._limit = store, limit
        self._folder = store.parent / FOLDER

    def file(self, chat: int) -> Path:
        """Where the cache of a chat is, or would be."""
        return self._folder / f"{chat}{_ENDING}"

    def keep(self, chat: int, session: "Session") -> None:
        """Save what the session holds as the cache of a chat; the file before stays until it is whole.

        Nothing is saved where nothing is held, where it is larger than the limit or the chat is gone.
        """
        snapshot, path = session.snapshot(), self.file(chat)
        if not session.held or snapshot is None or snapshot.resident_bytes > self._limit:
            return
        with self._rows("saving the cache") as do:
            if not do.execute("SELECT 1 FROM chats WHERE id = ?", (chat,)).fetchone():
                return
            _note(do, chat, session, path.stat().st_size if path.exists() else 0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"The folder {self._folder} can't be made.") from error
        session.save(path)
        with self._rows("saving the cache") as do:
            _note(do, chat, session, path.stat().st_size)

    def fits(self, chat: int, session: "Session") -> bool:
        """Whether a cache of this chat is saved for the session's model and setting."""
        if session.model is None:
            return False
        with self._rows("looking for the cache") as do:
            row = do.execute("SELECT model, method FROM caches WHERE chat = ?", (chat,)).fetchone()
        return row == (session.model.fingerprint, spell_method(session.config)) and self.file(chat).exists()

    def resume(self, chat: int, session: "Session") -> None:
        """Put a cache that ``fits`` into the session. One that is of no use is removed, and logged."""
        try:
            session.resume(self.file(chat), like=session.config)
        except StorageError as error:
            _log.warning("The saved cache of chat %d is removed: %s", chat, error)
            self.forget(chat)
            return
        with self._rows("using the cache") as do:
            do.execute("UPDATE caches SET used = ? WHERE chat = ?", (time.time(), chat))

    def forget(self, chat: int) -> None:
        """Remove the cache of a chat."""
        _remove(self.file(chat))
        with self._rows("removing the cache") as do:
            do.execute("DELETE FROM caches WHERE chat = ?", (chat,))

    def tidy(self, limit: int | None = None) -> int:
        """Remove what no chat has any more, then the longest unused caches above the limit.

        Returns the bytes of the files that stay (measured). ``limit`` stands in for the usual one once.
        """
        with self._rows("looking through the caches") as do:
            used = dict(do.execute("SELECT chat, used FROM caches").fetchall())
        sizes: dict[int, int] = {}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):
                state = path.stat()
                is_cache = path.suffix == _ENDING and path.stem.isdecimal()
                if is_cache and int(path.stem) in used:
                    sizes[int(path.stem)] = state.st_size
                elif is_cache or (path.suffix == ".part" and state.st_mtime < time.time() - _LEFT_OVER):
                    _remove(path)
        total = sum(sizes.values())
        for chat in sorted(sizes, key=lambda chat: used[chat]):
            if total <= (self._limit if limit is None else limit):
                break
            self.forget(chat)
            total -= sizes[chat]
        return total

    @contextlib.contextmanager
    def _rows(self, what: str) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(connected(self._store)) as connection, doing(connection, self._store, what):
            yield connection


def why_not_kept(error: Exception) -> str:
    """What a person is told when a cache can't be saved, in one sentence."""
    cause = error.__cause__
    full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
    full = full or getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    if full:
        what = "The disk is full, so the cache of this chat is not saved"
    else:
        what = "The cache of this chat can't be saved, the log says why"
    return f"{what}: the chat goes on, and is read again once you come back to it."


def _note(do: sqlite3.Connection, chat: int, session: "Session", size: int) -> None:
    fingerprint = session.model.fingerprint if session.model is not None else ""
    do.execute(
        "INSERT OR REPLACE INTO caches (chat, model, method, tokens, bytes, used) VALUES (?, ?, ?, ?, ?, ?)",
        (chat, fingerprint, spell_method(session.config), session.held, size, time.time()),
    )


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s can't be removed: %s", path, error)
