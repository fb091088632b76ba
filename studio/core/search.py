"""Finding words in all chats: SQLite's FTS5 over messages and titles.

The index holds no text of its own. It is told a message once it is whole, and what was told must be
handed in again to take it out.
"""

import re
import sqlite3
import unicodedata
from dataclasses import dataclass

from studio.core.database import text_in

SCANNED = 1_000
"""Newest matches looked at: one chat with thousands of them must not make the search wait."""
AROUND = 48
"""Characters of an excerpt before and after what was found."""
EXCERPTED = 20_000

_UNSPACED = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_ALONE = re.compile(f"([{_UNSPACED}])")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A chat that was found."""

    chat: int
    title: str
    updated: float
    message: int | None
    """The newest message with all words; None when only the title has them."""
    excerpt: str
    """Words around the first match, '' for a title."""


def index(do: sqlite3.Connection, table: str, id: int | None, text: str) -> None:
    """Make a text findable (``said`` for messages, ``titled`` for chats)."""
    do.execute(f"INSERT INTO {table} (rowid, text) VALUES (?, CAST(? AS TEXT))", (id, text_in(_spaced(text))))


def unindex(do: sqlite3.Connection, table: str, id: int, text: str) -> None:
    """Take out a text that was indexed, given exactly as it was."""
    do.execute(
        f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, CAST(? AS TEXT))",
        (id, text_in(_spaced(text))),
    )


def search(do: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Chats with every word of ``query`` (the last may be unfinished) in one message or in their title."""
    words = [found for part in query.split() if (found := _WORD.findall(_spaced(part)))]
    if not words:
        return []
    asked = " ".join('"' + " ".join(tokens) + '"' for tokens in words) + "*"
    newest: dict[int, int | None] = {}
    for chat, message in do.execute(
        "SELECT m.chat, m.id"
        " FROM (SELECT rowid FROM said WHERE said MATCH ? ORDER BY rowid DESC LIMIT ?) AS f"
        " JOIN messages AS m ON m.id = f.rowid JOIN chats AS c ON c.id = m.chat WHERE c.deleted IS NULL"
        " ORDER BY m.id DESC",
        (asked, SCANNED),
    ):
        newest.setdefault(chat, message)
        if len(newest) >= limit:
            break
    titles = do.execute(
        "SELECT c.id FROM (SELECT rowid FROM titled WHERE titled MATCH ? ORDER BY rowid DESC LIMIT ?) AS f"
        " JOIN chats AS c ON c.id = f.rowid WHERE c.deleted IS NULL",
        (asked, limit),
    ).fetchall()
    found = [id for (id,) in titles if id not in newest]
    # A title names the whole chat: such chats come first.
    order = [*((id, None) for id in found), *newest.items()][:limit]
    return [_hit(do, chat, message, words[0][0]) for chat, message in order]


def _hit(do: sqlite3.Connection, chat: int, message: int | None, word: str) -> Hit:
    title, updated = do.execute("SELECT title, updated FROM chats WHERE id = ?", (chat,)).fetchone()
    text = ""
    if message is not None:
        (text,) = do.execute("SELECT text FROM messages WHERE id = ?", (message,)).fetchone()
    return Hit(chat, title, updated, message, _excerpt(text, word))


def _excerpt(text: str, word: str) -> str:
    """The words around the first place where ``word`` begins, in one line."""
    at = text.lower().find(word.lower())
    if at < 0:
        # Letters with accents are found without them; looking that closely is for the beginning only.
        at = max(0, _bare(text[:EXCERPTED]).find(_bare(word)))
    start = max(0, at - AROUND)
    if start and (gap := text.find(" ", start, at)) > 0:
        start = gap + 1
    end = at + AROUND + len(word)
    return ("…" if start else "") + " ".join(text[start:end].split()) + ("…" if end < len(text) else "")


def _bare(text: str) -> str:
    """Lower case without accents, letter by letter, so that places stay what they were."""
    return "".join(unicodedata.normalize("NFD", letter)[0].lower() for letter in text)


def _spaced(text: str) -> str:
    """Scripts written without spaces get one around each character, so that each can be found."""
    return _ALONE.sub(r" \1 ", text)
