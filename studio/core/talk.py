"""The open chat: what is said goes into the tree and onto the disk in one step. No Qt, no MLX."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from studio.core.compared import KeptComparison, unpacked
from studio.core.conversation import Attachment, Conversation, Figures, Message
from studio.core.messages import INTERRUPTED, StoreError
from studio.core.settings import Settings, load, read_kept, save
from studio.core.store import ChatRow, Store
from veloxquant_mlx.prompt import Turn
from veloxquant_mlx.sampling import Sampling

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Talk:
    """One chat at a time. What can't be kept on disk any more goes on in memory, and ``notice`` says so."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.settings = load(store, Settings)
        self._usual = load(store, Sampling)
        """How new chats are sampled: as the last change said."""
        self.notice = store.notice
        self.new()

    def new(self) -> None:
        """An empty chat; it is kept from its first message on."""
        self.row: ChatRow | None = None
        self.tree = Conversation()
        self.unread = 0
        """Messages at the beginning of the path that the context has no room for."""
        self.system = self.settings.system
        self.sampling = self._usual

    def open(self, id: int) -> None:
        """Go on with a chat, on the path that was shown last. Raises StoreError when it is gone."""
        row, tree = self.store.chat(id), self.store.conversation(id)
        self.row, self.tree, self.system, self.unread = row, tree, row.system, 0
        self.sampling = self._usual if row.sampling is None else _read_sampling(row.sampling)
        for message in tree.path():
            if message.role == "assistant" and message.ended is None:
                # Another window is at it: what it has so far is shown, not waited for.
                tree.change(message.id, ended=INTERRUPTED)

    @property
    def keeps(self) -> Path | None:
        """The file a growing reply is written to; None when everything is in memory only."""
        return self.store.path if self.store.keeps else None

    # What is said ------------------------------------------------------------------------------

    def say(self, text: str, files: Sequence[Attachment] = ()) -> Message:
        """A message of the person's at the end of the path."""
        return self._say(self.tree.leaf, text, files)

    def say_differently(self, id: int, text: str, files: Sequence[Attachment] = ()) -> Message:
        """Another version of a message of the person's."""
        self.unread = 0
        return self._say(self.tree[id].parent, text, files)

    def begin_reply(self) -> Message:
        """An empty reply at the end of the path; where a reply ends it, another version of that one."""
        last = self.tree.path()[-1]
        parent = last.id if last.role == "user" else last.parent
        return self._add(parent, "assistant", "", ())

    def go_on(self) -> Message:
        """Let the reply at the end of the path grow again."""
        last = self.tree.path()[-1]
        return self.tree.change(last.id, ended=None)

    def turns(self) -> list[Turn]:
        """What the model is to read: the system prompt, the path without what was dropped, and the reply that
        goes on."""
        said: list[Turn] = [("system", self.system)] if self.system.strip() else []
        path = self.tree.path()[self.unread :]
        if path and path[-1].role == "assistant" and not path[-1].text:
            path.pop()
        return said + [(message.role, message.content) for message in path]

    def end(self, id: int, text: str, ended: str, figures: Figures) -> Message | None:
        """A reply ended with this whole text; None when its chat is not open any more.

        Its journal has kept the same before, where there is one and nothing went wrong with it.
        """
        self._kept(lambda: self.store.finish(id, text, ended, figures))
        if id not in self.tree:
            return None
        if self.row is not None and figures.context_tokens is not None:
            self.row = self._kept(lambda: self.store.chat(self.row.id if self.row else 0)) or self.row
        return self.tree.change(id, text=text, ended=ended, figures=figures)

    def take_back(self, id: int) -> None:
        """Undo a message nothing was said below."""
        if id in self.tree:
            self.tree.remove(id)
            self._kept(lambda: self.store.remove(id))
            if self.row is not None and not len(self.tree):
                gone = self.row.id
                self._kept(lambda: self.store.delete(gone))
                self.row = None

    def choose(self, id: int) -> None:
        """Show another version of a message."""
        self.tree.choose(id)
        self.unread = 0
        self._keep_leaf()

    def set_system(self, text: str) -> None:
        """The system prompt of this chat."""
        self.system = text
        if self.row is not None:
            id = self.row.id
            self._kept(lambda: self.store.set_system(id, text))

    def set_sampling(self, sampling: Sampling) -> None:
        """How this chat's replies are sampled, and those of new chats."""
        self.sampling = self._usual = sampling
        self._kept(lambda: save(self.store, sampling))
        if self.row is not None:
            id = self.row.id
            self._kept(lambda: self.store.set_sampling(id, json.dumps(sampling.as_dict())))

    def set_settings(self, settings: Settings) -> None:
        """Keep other settings."""
        self.settings = settings
        self._kept(lambda: save(self.store, settings))

    def set_place(self, place: str) -> None:
        """Where the page is scrolled to."""
        if self.row is not None:
            id = self.row.id
            self._kept(lambda: self.store.set_place(id, place))

    def keep_comparison(self, id: int, kept: KeptComparison) -> None:
        """Keep what comparing told of a message. It can be done without: where that fails the log says so."""
        try:
            self.store.keep_comparison(id, kept.packed())
        except StoreError as error:
            _log.warning("%s", error)

    def comparisons(self, ids: Sequence[int]) -> dict[int, KeptComparison]:
        """What is kept of these messages."""
        try:
            kept = self.store.comparisons(ids)
        except StoreError as error:
            _log.warning("%s", error)
            return {}
        found = {id: unpacked(id, packed) for id, packed in kept.items()}
        return {id: one for id, one in found.items() if one is not None}

    # Inside ------------------------------------------------------------------------------------

    def _say(self, parent: int | None, text: str, files: Sequence[Attachment]) -> Message:
        if self.row is None:
            title = text if text.strip() else ", ".join(file.name for file in files)
            sampling = json.dumps(self.sampling.as_dict())
            self.row = self._kept(lambda: self.store.new_chat(title, self.system, sampling))
        return self._add(parent, "user", text, files)

    def _add(self, parent: int | None, role: str, text: str, files: Sequence[Attachment]) -> Message:
        chat = self.row.id if self.row is not None else 0
        message = self._kept(lambda: self.store.add(chat, parent, role, text, files))  # type: ignore[arg-type]
        self.tree.add(message)
        return message

    def _keep_leaf(self) -> None:
        if self.row is not None:
            id, leaf = self.row.id, self.tree.leaf
            self._kept(lambda: self.store.set_leaf(id, leaf))

    def _kept(self, work: Callable[[], _T]) -> _T:
        """Do it in the store; when the file fails, once more in memory, where the talk goes on."""
        try:
            return work()
        except StoreError as error:
            if not self.store.keeps:
                raise
            _log.warning("%s", error, exc_info=True)
            self.notice = f"{str(error).rstrip('.')}. Until the next start nothing you write is kept."
            self.store.go_on_in_memory()
            return work()


def _read_sampling(kept: str) -> Sampling:
    try:
        return read_kept(Sampling, json.loads(kept))
    except ValueError:
        return Sampling()
