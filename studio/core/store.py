"""Chats, their messages and the settings on disk. Each message is there as soon as it is made.

SQLite in WAL mode: a killed process loses nothing that was written, and instances side by side take turns.
A Store belongs to the thread that made it; ``Journal`` is how another thread writes a growing reply.
"""

import contextlib
import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.core import database
from studio.core.conversation import Attachment, Conversation, Figures, Message, Role
from studio.core.messages import (
    INTERRUPTED,
    StoreError,
    doing,
    files_out,
    finish_reply,
    message_of,
    messages_of,
    searched,
)
from studio.core.search import Hit, index, search, unindex
from veloxquant_mlx.paths import data_dir

_log = logging.getLogger(__name__)

TITLE = 60
"""Most characters of a title taken from the first message."""
UNNAMED = "New chat"
COMPARISONS = 32 << 20
"""Bytes that the comparisons of all chats may take: some 2,500 replies of 500 tokens."""


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat as the list and its page need it."""

    id: int
    title: str
    updated: float
    """Seconds since 1970."""
    tokens: int | None
    """Tokens in the cache after the last reply, counted; None before the first."""
    leaf: int | None = None
    place: str | None = None
    """Where the page was scrolled to, in the words of the screen."""
    system: str = ""
    sampling: str | None = None
    """Sampling as JSON; None for the settings'."""


_CHAT = "id, title, updated, tokens, leaf, place, system, sampling"


def store_path() -> Path:
    """The database in the platform's data folder."""
    return data_dir() / "chats.sqlite"


class Store:
    """Open with ``Store()``; ``notice`` says in one sentence what the person should know about the file.

    Raises StoreError when something can't be written or read, never for the state of the file at opening.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or store_path()
        opened = database.open_database(self.path)
        self._connection = opened.connection
        self.keeps = opened.keeps
        """False when everything written is gone with the app: the file can't be used, as notice says."""
        self.notice = opened.notice
        try:
            self._settle()
        except StoreError as error:
            self.notice = self.notice or str(error)
        self._version = self._data_version()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def go_on_in_memory(self) -> None:
        """After the file has failed: what could still be read of it is in memory, and all goes on there."""
        self._connection = database.retreat(self._connection)
        self.keeps = False

    def changed_elsewhere(self) -> bool:
        """True when another instance or thread wrote since the last call."""
        before, self._version = self._version, self._data_version()
        return before != self._version

    # Chats -------------------------------------------------------------------------------------

    def new_chat(self, first_words: str, system: str = "", sampling: str | None = None) -> ChatRow:
        """A chat named after its first words."""
        now = time.time()
        with self._doing("starting a chat") as do:
            row = do.execute(
                "INSERT INTO chats (title, created, updated, system, sampling)"
                " VALUES (CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), ?)",
                (database.text_in(title_of(first_words)), now, now, database.text_in(system), sampling),
            )
            index(do, "titled", row.lastrowid, title_of(first_words))
        return self.chat(int(row.lastrowid or 0))

    def chat(self, id: int) -> ChatRow:
        """One chat. Raises StoreError when it is gone."""
        with self._doing("opening the chat") as do:
            row = do.execute(f"SELECT {_CHAT} FROM chats WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise StoreError("This chat is gone: it was deleted in another window.")
        return ChatRow(*row)

    def chats(self, limit: int = 200, after: ChatRow | None = None) -> list[ChatRow]:
        """Chats that are not deleted, the newest first; the next page comes ``after`` the last row."""
        where, values = "deleted IS NULL", []
        if after is not None:
            where += " AND (updated, id) < (?, ?)"
            values = [after.updated, after.id]
        with self._doing("listing the chats") as do:
            rows = do.execute(
                f"SELECT {_CHAT} FROM chats WHERE {where} ORDER BY updated DESC, id DESC LIMIT ?",
                (*values, limit),
            ).fetchall()
        return [ChatRow(*row) for row in rows]

    def rename(self, id: int, title: str) -> None:
        """Another name; an empty one changes nothing."""
        title = title_of(title, whole=True)
        if title == UNNAMED:
            return
        with self._doing("renaming the chat") as do:
            unindex(do, "titled", id, self._title(do, id))
            do.execute("UPDATE chats SET title = CAST(? AS TEXT) WHERE id = ?", (database.text_in(title), id))
            index(do, "titled", id, title)

    def delete(self, id: int) -> None:
        """Take a chat out of list and search; ``restore`` brings it back until it is purged."""
        with self._doing("deleting the chat") as do:
            do.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), id))

    def restore(self, id: int) -> None:
        """Undo ``delete``."""
        with self._doing("bringing the chat back") as do:
            do.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (id,))

    def purge(self, older_than: float = 0.0) -> list[int]:
        """Remove for good what was deleted at least ``older_than`` seconds ago; the chats' numbers."""
        with self._doing("removing deleted chats") as do:
            gone = do.execute(
                "SELECT id FROM chats WHERE deleted <= ?", (time.time() - older_than,)
            ).fetchall()
            for (id,) in gone:
                unindex(do, "titled", id, self._title(do, id))
                for message in messages_of(do, id):
                    if message.ended is not None or message.role == "user":
                        unindex(do, "said", message.id, searched(message))
                do.execute("DELETE FROM chats WHERE id = ?", (id,))
        return [id for (id,) in gone]

    def set_system(self, id: int, system: str) -> None:
        """The system prompt of a chat."""
        self._set("system", id, database.text_in(system))

    def set_sampling(self, id: int, sampling: str | None) -> None:
        """How replies of a chat are sampled, JSON."""
        self._set("sampling", id, sampling)

    def set_place(self, id: int, place: str) -> None:
        """Where a chat's page is scrolled to."""
        self._set("place", id, place)

    def set_leaf(self, id: int, leaf: int | None) -> None:
        """The end of the path that is shown."""
        self._set("leaf", id, leaf)

    # Messages ----------------------------------------------------------------------------------

    def conversation(self, chat: int) -> Conversation:
        """All messages of a chat, with what an interrupted reply had so far."""
        row = self.chat(chat)
        with self._doing("opening the chat") as do:
            return Conversation(messages_of(do, chat), row.leaf)

    def add(
        self, chat: int, parent: int | None, role: Role, text: str, files: Sequence[Attachment] = ()
    ) -> Message:
        """Keep a message; an assistant's is one that begins to grow. It becomes the end of the path."""
        now = time.time()
        with self._doing("saving the message") as do:
            row = do.execute(
                "INSERT INTO messages (chat, parent, role, text, files, created)"
                " VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)",
                (chat, parent, role, database.text_in(text), files_out(files), now),
            )
            message = Message(int(row.lastrowid or 0), parent, role, text, tuple(files), created=now)
            do.execute("UPDATE chats SET leaf = ?, updated = ? WHERE id = ?", (message.id, now, chat))
            if role == "user":
                index(do, "said", message.id, searched(message))
        return message

    def finish(self, id: int, text: str, ended: str, figures: Figures) -> None:
        """The whole text of a reply that ended, with how and its figures."""
        with self._doing("saving the reply") as do:
            finish_reply(do, id, text, ended, figures)

    def remove(self, id: int) -> None:
        """Take a message without answers back."""
        with self._doing("taking the message back") as do:
            message = message_of(do, id)
            if message.ended is not None or message.role == "user":
                unindex(do, "said", id, searched(message))
            do.execute("UPDATE chats SET leaf = ? WHERE leaf = ?", (message.parent, id))
            do.execute("DELETE FROM messages WHERE id = ?", (id,))

    def search(self, query: str, limit: int = 50) -> list[Hit]:
        """Chats with all words of ``query`` in one message or in the title, the newest messages first."""
        with self._doing("searching the chats") as do:
            return search(do, query, limit)

    # Comparisons -------------------------------------------------------------------------------

    def keep_comparison(self, message: int, packed: bytes) -> None:
        """Keep what comparing told of a message; the oldest give way where all take more than COMPARISONS."""
        with self._doing("saving the comparison") as do:
            do.execute(
                "INSERT OR REPLACE INTO comparisons (message, bytes, packed) VALUES (?, ?, ?)",
                (message, len(packed), packed),
            )
            do.execute(
                "DELETE FROM comparisons WHERE message IN (SELECT message FROM (SELECT message,"
                " sum(bytes) OVER (ORDER BY message DESC) AS together FROM comparisons) WHERE together > ?)",
                (COMPARISONS,),
            )

    def comparisons(self, messages: Sequence[int]) -> dict[int, bytes]:
        """What is kept of these messages, where something is."""
        asked = json.dumps(list(messages))
        with self._doing("opening the chat") as do:
            return dict(
                do.execute(
                    "SELECT message, packed FROM comparisons"
                    " WHERE message IN (SELECT value FROM json_each(?))",
                    (asked,),
                ).fetchall()
            )

    # Settings ----------------------------------------------------------------------------------

    def setting(self, key: str) -> Any:
        """What was kept under ``key``, or None, also where it can't be read."""
        with self._doing("reading the settings") as do:
            row = do.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        try:
            return json.loads(row[0]) if row else None
        except ValueError:
            _log.warning("The setting %s can't be read and is left out", key)
            return None

    def set_setting(self, key: str, value: Any) -> None:
        """Keep a JSON value."""
        with self._doing("saving the settings") as do:
            do.execute(
                "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, json.dumps(value)),
            )

    # Inside ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _doing(self, what: str) -> Iterator[sqlite3.Connection]:
        with doing(self._connection, self.path, what):
            yield self._connection

    def _set(self, column: str, id: int, value: object) -> None:
        form = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
        with self._doing("saving the chat") as do:
            do.execute(f"UPDATE chats SET {column} = {form} WHERE id = ?", (value, id))

    def _settle(self) -> None:
        """Close replies that a killed app left open; one that is still written elsewhere goes on."""
        with self._doing("opening the chats") as do:
            open_ones = do.execute(
                "SELECT id FROM messages WHERE role = 'assistant' AND ended IS NULL"
            ).fetchall()
            for (id,) in open_ones:
                message = message_of(do, id)
                finish_reply(do, id, message.text, INTERRUPTED, message.figures)

    def _title(self, do: sqlite3.Connection, id: int) -> str:
        row = do.execute("SELECT title FROM chats WHERE id = ?", (id,)).fetchone()
        return row[0] if row else ""

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


def title_of(text: str, *, whole: bool = False) -> str:
    """A title from the first words of a text, in one line."""
    words = " ".join(text.split())
    if whole or len(words) <= TITLE:
        return words[:500] or UNNAMED
    cut = words[: TITLE - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[TITLE // 2 :] else cut).rstrip(" ,;:.") + "…"
