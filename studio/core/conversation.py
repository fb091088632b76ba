"""A conversation as a tree: an edit or another answer is a sibling, and one path through it is shown.

Plain records, neither Qt nor MLX nor a database: ``store`` keeps what is here, the screen shows ``path()``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text file that goes to the model with a message."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a finished reply measured and was made with; None where it is unknown."""

    prompt_tokens: int | None = None
    """Tokens that were read for it."""
    kept_tokens: int | None = None
    again_tokens: int | None = None
    """What the cache had of the conversation, and what was read once more; see Reuse."""
    reply_tokens: int | None = None
    tokens_per_second: float | None = None
    context_tokens: int | None = None
    """Tokens in the cache after the reply, counted."""
    model: str = ""
    cache: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One node of the tree. ``id`` is the database's and grows with time."""

    id: int
    parent: int | None
    role: Role
    text: str
    files: tuple[Attachment, ...] = ()
    ended: str | None = None
    """Why a reply ended (see FinishedStep.reason, or ``failed``); None while it is written, and for good if
    the app ended before it."""
    figures: Figures = Figures()
    created: float = 0.0
    """Seconds since 1970."""

    @property
    def content(self) -> str:
        """What the model reads: the files, each under its name, then the words."""
        return "\n\n".join([*(quoted(file) for file in self.files), self.text])


class Conversation:
    """Messages by id, and the path from the first one to ``leaf``."""

    def __init__(self, messages: Iterable[Message] = (), leaf: int | None = None) -> None:
        self._messages: dict[int, Message] = {}
        self._children: dict[int | None, list[int]] = {}
        self._chosen: dict[int | None, int] = {}
        """Parent -> the child that was shown last; the newest where none was."""
        for message in sorted(messages, key=lambda m: m.id):
            self._insert(message)
        self.leaf: int | None = None
        if leaf in self._messages:
            self._lead_to(leaf)
        elif self._messages:
            self.leaf = self._end_of(None)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        """All messages, oldest first."""
        return iter([self._messages[id] for id in sorted(self._messages)])

    def __contains__(self, id: object) -> bool:
        return id in self._messages

    def __getitem__(self, id: int) -> Message:
        return self._messages[id]

    def path(self) -> list[Message]:
        """The shown messages, first to last."""
        return self.up_to(self.leaf)

    def up_to(self, id: int | None) -> list[Message]:
        """The messages from the first one to ``id``, itself included; none for None."""
        found: list[Message] = []
        while id is not None:
            found.append(self._messages[id])
            id = self._messages[id].parent
        return found[::-1]

    def siblings(self, id: int) -> list[int]:
        """The versions of a message, oldest first, itself included."""
        return list(self._children[self._messages[id].parent])

    def add(self, message: Message) -> None:
        """Put a new message below its parent and show it. Raises KeyError for an unknown parent."""
        if message.parent is not None and message.parent not in self._messages:
            raise KeyError(message.parent)
        self._insert(message)
        self._lead_to(message.id)

    def choose(self, id: int) -> None:
        """Show a version of a message, and below it what was shown there last."""
        self._lead_to(id)
        self.leaf = self._end_of(id)

    def change(self, id: int, **values: object) -> Message:
        """Another text, end or figures for a message, as while a reply grows; returns it."""
        self._messages[id] = replace(self._messages[id], **values)  # type: ignore[arg-type]
        return self._messages[id]

    def remove(self, id: int) -> None:
        """Take back a message without children; its newest sibling is shown in its place, else its parent.

        Raises ValueError where something was said below it.
        """
        if self._children.get(id):
            raise ValueError(f"Message {id} has answers.")
        parent = self._messages.pop(id).parent
        versions = self._children[parent]
        versions.remove(id)
        if self._chosen.get(parent) == id:
            del self._chosen[parent]
        if self.leaf == id:
            self.leaf = self._end_of(parent)

    def _insert(self, message: Message) -> None:
        self._messages[message.id] = message
        self._children.setdefault(message.parent, []).append(message.id)

    def _lead_to(self, id: int) -> None:
        """Make the path go through ``id`` and end there."""
        self.leaf = id
        at: int | None = id
        while at is not None:
            parent = self._messages[at].parent
            self._chosen[parent] = at
            at = parent

    def _end_of(self, id: int | None) -> int | None:
        """The last message below ``id`` along what was shown last."""
        while children := self._children.get(id):
            id = self._chosen.get(id, children[-1])
        return id


def quoted(file: Attachment) -> str:
    """A file as a model reads it: fenced by more backticks than its own text has in a row."""
    longest = max((len(run) for run in re.findall("`+", file.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{file.name}:\n{fence}\n{file.text.rstrip()}\n{fence}"
