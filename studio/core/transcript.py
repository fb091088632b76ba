"""A chat for other programs and other people: its shown path as Markdown, all of it as JSON."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from studio.core.conversation import Conversation, Message, quoted
from studio.core.store import ChatRow
from veloxquant_mlx.atomic import write_atomic
from veloxquant_mlx.errors import VeloxQuantError

FORMAT = "veloxquant-chat"
VERSION = 1


def export_chat(path: Path, row: ChatRow, talk: Conversation) -> None:
    """Write ``path``, ``.json`` or Markdown. Raises VeloxQuantError; a file already there stays then."""
    text = as_json(row, talk) if path.suffix.lower() == ".json" else as_markdown(row, talk)
    try:
        # A lone surrogate has no UTF-8 form; JSON writes it as an escape, Markdown can't hold it.
        write_atomic(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise VeloxQuantError(
            f"{path} could not be written: {error.strerror}; choose another place."
        ) from error


def as_markdown(row: ChatRow, talk: Conversation) -> str:
    """The shown path, each message under who said it; files fenced under their names."""
    parts = [f"# {row.title}"]
    if row.system.strip():
        parts += ["## System", row.system]
    for message in talk.path():
        parts.append("## You" if message.role == "user" else f"## {message.figures.model or 'Model'}")
        parts += [quoted(file) for file in message.files]
        parts.append(message.text.strip("\n"))
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(row: ChatRow, talk: Conversation) -> str:
    """All versions of all messages, with figures and the ids of the shown path."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "title": row.title,
        "updated": _time(row.updated),
        "system": row.system,
        "sampling": json.loads(row.sampling) if row.sampling else None,
        "path": [message.id for message in talk.path()],
        "messages": [_message(message) for message in talk],
    }
    return json.dumps(record, indent=2) + "\n"


def _message(message: Message) -> dict[str, Any]:
    figures = {name: value for name, value in asdict(message.figures).items() if value not in (None, "")}
    return {
        "id": message.id,
        "parent": message.parent,
        "role": message.role,
        "text": message.text,
        "files": [asdict(file) for file in message.files],
        "ended": message.ended,
        "created": _time(message.created),
        "figures": figures,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
