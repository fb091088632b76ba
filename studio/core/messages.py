"""Message rows: reading them, the pieces of a reply that grows, and its end.

The text of a message is its row followed by its pieces, in this order at any moment, so that whoever reads
it, and whoever folds the pieces into the row, is right even while another connection goes on writing.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from studio.core import database
from studio.core.conversation import Attachment, Figures, Message
from studio.core.search import index, unindex
from veloxquant_mlx.errors import VeloxQuantError

INTERRUPTED = "interrupted"
"""How a reply ended that was still written when the app was."""


class StoreError(VeloxQuantError):
    """Something can't be kept or read; what is on the screen is not affected."""


class Journal:
    """Writes one reply as it grows, on the thread that makes it: after ``append`` a piece is on disk.

    Opens a connection of its own and belongs to its thread. A reply that has ended goes on.
    Raises StoreError.
    """

    def __init__(self, path: Path, message: int) -> None:
        self._path, self._message = path, message
        self._connection = connected(path)
        try:
            with doing(self._connection, path, "saving the reply"):
                old = message_of(self._connection, message)
                if old.ended is not None:
                    unindex(self._connection, "said", message, searched(old))
                    self._connection.execute("UPDATE messages SET ended = NULL WHERE id = ?", (message,))
        except StoreError:
            self._connection.close()
            raise
        self._before = old.text

    def append(self, text: str) -> None:
        """Keep the next piece."""
        if text:
            with doing(self._connection, self._path, "saving the reply"):
                self._connection.execute(
                    "INSERT INTO pieces (message, text) VALUES (?, CAST(? AS TEXT))",
                    (self._message, database.text_in(text)),
                )

    def finish(self, text: str, ended: str, figures: Figures) -> None:
        """The whole of what was written now stands in place of its pieces."""
        with doing(self._connection, self._path, "saving the reply"):
            finish_reply(self._connection, self._message, self._before + text, ended, figures)

    def close(self) -> None:
        """Let go of the file; what was appended stays."""
        self._connection.close()


def connected(path: Path) -> sqlite3.Connection:
    """A connection for another thread than the store's. Raises StoreError."""
    try:
        return database.connect(path)
    except sqlite3.Error as error:
        raise StoreError(f"The file of your chats, {path}, can't be opened: {error}.") from error


@contextlib.contextmanager
def doing(connection: sqlite3.Connection, path: Path, what: str) -> Iterator[None]:
    """A transaction whose failure is one sentence."""
    try:
        with database.transaction(connection):
            yield
    except sqlite3.Error as error:
        if database.is_damage(error):
            database.suspect(path)
            raise StoreError(
                f"The file of your chats is damaged, so {what} failed; start the app again to set it aside."
            ) from error
        reason = "another program keeps it locked" if "locked" in str(error) else str(error)
        raise StoreError(
            f"The file of your chats, {path}, could not be used for {what}: {reason}."
        ) from error


def finish_reply(do: sqlite3.Connection, id: int, text: str, ended: str, figures: Figures) -> None:
    """Inside a transaction: a reply has ended."""
    row = do.execute(f"SELECT {_MESSAGE} FROM messages WHERE id = ?", (id,)).fetchone()
    if row is None:
        # Its chat was removed in another window.
        return
    if row[5] is not None:
        unindex(do, "said", id, searched(_made(row, "")))
    known = {name: value for name, value in asdict(figures).items() if value not in (None, "")}
    do.execute("DELETE FROM pieces WHERE message = ?", (id,))
    do.execute(
        "UPDATE messages SET text = CAST(? AS TEXT), ended = ?, figures = ? WHERE id = ?",
        (database.text_in(text), ended, json.dumps(known) if known else None, id),
    )
    index(do, "said", id, text)
    do.execute(
        "UPDATE chats SET updated = max(updated, ?), tokens = coalesce(?, tokens)"
        " WHERE id = (SELECT chat FROM messages WHERE id = ?)",
        (row[7], figures.context_tokens, id),
    )


_MESSAGE = "id, parent, role, text, files, ended, figures, created"


def messages_of(do: sqlite3.Connection, chat: int) -> list[Message]:
    pieces: dict[int, list[str]] = {}
    for id, text in do.execute(
        "SELECT message, text FROM pieces WHERE message IN (SELECT id FROM messages WHERE chat = ?)"
        " ORDER BY id",
        (chat,),
    ):
        pieces.setdefault(id, []).append(text)
    rows = do.execute(f"SELECT {_MESSAGE} FROM messages WHERE chat = ? ORDER BY id", (chat,))
    return [_made(row, "".join(pieces.get(row[0], ()))) for row in rows]


def message_of(do: sqlite3.Connection, id: int) -> Message:
    row = do.execute(f"SELECT {_MESSAGE} FROM messages WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise StoreError("This message is gone: its chat was deleted in another window.")
    pieces = do.execute("SELECT text FROM pieces WHERE message = ? ORDER BY id", (id,)).fetchall()
    return _made(row, "".join(text for (text,) in pieces))


def _made(row: tuple[Any, ...], grown: str) -> Message:
    id, parent, role, text, files, ended, figures, created = row
    return Message(
        id, parent, role, text + grown,
        tuple(Attachment(**file) for file in json.loads(files)) if files else (),
        ended, _figures(figures), created,
    )  # fmt: skip


def _figures(kept: str | None) -> Figures:
    """What another version kept besides is left out."""
    values = json.loads(kept) if kept else {}
    return Figures(**{item.name: values[item.name] for item in fields(Figures) if item.name in values})


def files_out(files: Sequence[Attachment]) -> str | None:
    return json.dumps([asdict(file) for file in files]) if files else None


def searched(message: Message) -> str:
    """What the search looks through: the words and the files' names."""
    return " ".join([*(file.name for file in message.files), message.text])
