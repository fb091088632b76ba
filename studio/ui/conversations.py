"""Between the page, the list of chats, the store and the engine: what is said, kept, answered and shown."""

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog

from studio.core.conversation import Attachment, Figures, Message
from studio.core.keeping import figures_of
from studio.core.messages import StoreError
from studio.core.request import Kind, Request
from studio.core.settings import DROP
from studio.core.talk import Talk
from studio.core.transcript import export_chat
from studio.ui.chat import Chat
from studio.ui.chats_panel import ChatsPanel
from studio.ui.flow import ReplyFlow
from studio.ui.link import EngineLike
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.prompt import Turn
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep

PAGE = 200
"""Chats read at once; the list asks for more as it is scrolled."""


@dataclass(slots=True)
class _Running:
    """A reply the engine was asked for; they end in the order they were asked."""

    id: int
    kind: Kind
    before: str
    """Text of a reply that goes on."""


class Conversations(QObject):
    """``changed`` when something else can be done than before."""

    begun = Signal(str)
    """A reply is about to be asked for: its kind, as in Request."""
    changed = Signal()
    left = Signal()
    """The chat on the page gives way to another."""
    shown = Signal()
    """Another chat, or none, is on the page."""

    def __init__(
        self, chat: Chat, panel: ChatsPanel, flow: ReplyFlow, engine: EngineLike, talk: Talk
    ) -> None:
        super().__init__()
        self.chat, self.panel, self.flow, self.engine, self.talk = chat, panel, flow, engine, talk
        self.model = self.cache = ""
        """What replies are said to come from."""
        self._running: deque[_Running] = deque()
        self.unlimited: set[int] = set()
        """Chats that the person wants to go on with whatever memory they seem to need."""
        chat.send_requested.connect(self.send)
        chat.edit_requested.connect(self._edit)
        chat.regenerate_requested.connect(lambda _: self.regenerate())
        chat.continue_requested.connect(lambda _: self.go_on())
        chat.version_chosen.connect(self._choose)
        panel.open_requested.connect(self.open)
        panel.new_requested.connect(self.new)
        panel.rename_requested.connect(self._rename)
        panel.delete_requested.connect(self._delete)
        panel.undo_requested.connect(self._undo)
        panel.export_requested.connect(self.export)
        panel.search_changed.connect(lambda _: self.refresh())
        panel.more_requested.connect(self._more)
        chat.prompt.attached.connect(lambda file: engine.count(file, file.text))
        engine.counted.connect(chat.prompt.set_tokens)
        engine.dropped.connect(self._on_dropped)
        self.refresh()
        self._tell()

    # Commands ----------------------------------------------------------------------------------

    def send(self, text: str, files: Sequence[Attachment] = ()) -> None:
        """Say something to the model."""
        self.talk.say(text, files)
        self._answer("reply")

    def regenerate(self) -> None:
        """Answer the last message again, through the cache as it is set now; the old answer stays."""
        if self.chat.can_regenerate() and not self.engine.busy:
            self._answer("regenerate")

    def go_on(self) -> None:
        """Let the last reply go on."""
        if self.chat.can_go_on() and not self.engine.busy:
            self._answer("continue")

    def new(self) -> None:
        """An empty page; the chat before stays in the list."""
        self._leave()
        self.talk.new()
        self._show()
        self.chat.prompt.setFocus()

    def open(self, id: int, message: int | None = None) -> None:
        """Put a chat on the page, where it was left or at a message of it."""
        if self.talk.row is None or id != self.talk.row.id:
            self._leave()
            try:
                self.talk.open(id)
            except StoreError as error:
                self.chat.notice.show_error(str(error))
                self.refresh()
                return
            self._show()
        if message is not None and message in self.talk.tree:
            if message not in {shown.id for shown in self.talk.tree.path()}:
                self._choose(message)
            self.chat.go_to(str(message))
        elif self.talk.row is not None:
            self.chat.go_to(self.talk.row.place or "")

    def refresh(self) -> None:
        """Read the list anew, or search anew."""
        query = self.panel.search.text().strip()
        try:
            rows = self.talk.store.search(query) if query else self.talk.store.chats(PAGE)
        except StoreError as error:
            self.chat.notice.show_error(str(error))
            return
        self.panel.show_rows(rows, more=not query and len(rows) == PAGE)
        self.panel.set_open(self.talk.row.id if self.talk.row else None)

    def look_elsewhere(self) -> None:
        """Show what another window kept in the meantime."""
        if self.talk.store.changed_elsewhere() and not self._running:
            self.refresh()

    def export(self, id: int) -> None:
        """Ask where to, then write a chat as Markdown or JSON."""
        try:
            row, tree = self.talk.store.chat(id), self.talk.store.conversation(id)
            stem = "".join(letter if letter.isalnum() or letter in " -" else "" for letter in row.title)
            start = str(Path.home() / f"{stem.strip() or 'chat'}.md")
            kinds = "Markdown, the shown versions (*.md);;JSON, all versions (*.json)"
            path, kind = QFileDialog.getSaveFileName(self.chat.window(), "Export the chat", start, kinds)
            if path:
                ending = ".json" if "json" in kind else ".md"
                export_chat(Path(path) if Path(path).suffix else Path(path + ending), row, tree)
                self.chat.notice.show_note(f"Chat saved to {path}")
        except VeloxQuantError as error:
            self.chat.notice.show_error(str(error))

    def set_sampling(self, sampling: Sampling) -> None:
        """How replies are sampled from now on."""
        self.talk.set_sampling(sampling)
        self._tell()

    def set_system(self, text: str) -> None:
        """The system prompt of this chat."""
        self.talk.set_system(text)
        self._tell()

    def remove_deleted(self) -> None:
        """From here on no delete can be undone."""
        # Where it fails they stay marked as deleted, and go when the app is closed the next time.
        with contextlib.suppress(StoreError):
            self.talk.store.purge()

    def close(self) -> None:
        """Remember where the page stands, and let go of the file."""
        self.talk.set_place(self.chat.place())
        self.talk.store.close()

    # The engine's answers ----------------------------------------------------------------------

    def finished(self, step: FinishedStep) -> None:
        """The oldest reply asked for has ended."""
        if not self._running:
            return
        run = self._running.popleft()
        figures = figures_of(step, self.model, self.cache)
        message = self.talk.end(run.id, run.before + step.text, step.reason, figures)
        if message is not None and self._is_shown(run):
            self.chat.finish(message)
        self._after()

    def failed(self, sentence: str, details: str) -> None:
        """It broke. A message without a word of an answer goes back into the box."""
        if not self._running:
            self.chat.notice.show_error(sentence, details)
            return
        run = self._running.popleft()
        is_shown = self._is_shown(run)
        left = self._what_is_left(run, "failed")
        if is_shown:
            self.chat.fail(left, sentence, details)
        self._after()

    def cancelled(self) -> None:
        """It was stopped before it had an end of its own."""
        if self._running:
            left = self._what_is_left(self._running.popleft(), "stopped")
            if left is not None:
                self.chat.finish(left)
            self._after()

    def said(self) -> list[Turn]:
        """System prompt and every message shown, a running reply as far as it goes."""
        system: list[Turn] = [("system", self.talk.system)] if self.talk.system.strip() else []
        said: list[Turn] = [(message.role, message.content) for message in self.talk.tree.path()]
        running = self.chat.running_text()
        if running is not None and said:
            said[-1] = (said[-1][0], running)
        return system + said

    # Inside ------------------------------------------------------------------------------------

    def _edit(self, id: int, text: str, files: Sequence[Attachment]) -> None:
        self.talk.say_differently(id, text, files)
        self._answer("reply")

    def _answer(self, kind: Kind) -> None:
        reply = self.talk.go_on() if kind == "continue" else self.talk.begin_reply()
        self._running.append(_Running(reply.id, kind, reply.text))
        self._show_path()
        self.begun.emit(kind)
        chat = self.talk.row.id if self.talk.row else 0
        self.engine.answer(
            Request(
                kind, tuple(self.talk.turns()), self.talk.sampling,
                drop=self.talk.settings.at_limit == DROP, chat=chat,
                message=reply.id, journal=self.talk.keeps, model=self.model, cache=self.cache,
                limit=0 if chat in self.unlimited else self.talk.settings.memory_limit,
            )
        )  # fmt: skip
        self._tell()
        self.refresh()

    def _what_is_left(self, run: _Running, ended: str) -> Message | None:
        """Of a reply without an end of its own: the text so far, or nothing, and then it is taken back."""
        if not self._is_shown(run):
            return None
        text = self.chat.shown()[-1].text()
        if text:
            return self.talk.end(run.id, text, ended, Figures())
        self.talk.take_back(run.id)
        path = self.talk.tree.path()
        if run.kind == "reply":
            asked = path[-1]
            self.talk.take_back(asked.id)
            self.chat.give_back(asked.text, asked.files)
        self._show_path()
        return None

    def _is_shown(self, run: _Running) -> bool:
        return run.id == self.talk.tree.leaf

    def _after(self) -> None:
        self._tell()
        self.refresh()
        self.changed.emit()

    def _choose(self, id: int) -> None:
        self.talk.choose(id)
        self._show_path()
        self.changed.emit()

    def _leave(self) -> None:
        """Before another chat comes: remember the place, and give the cache back."""
        self.talk.set_place(self.chat.place())
        self.left.emit()
        self.engine.new_chat()
        self.flow.forget()

    def _show(self) -> None:
        self.chat.show_path([], lambda id: [id])
        self._show_path()
        self.chat.stop_editing()
        self.panel.set_open(self.talk.row.id if self.talk.row else None)
        self._tell()
        self.shown.emit()

    def _show_path(self) -> None:
        self.chat.show_path(self.talk.tree.path(), self.talk.tree.siblings)
        self.chat.set_unread(self.talk.unread)

    def _tell(self) -> None:
        """Say what is wrong with the file of chats, once."""
        if self.talk.notice:
            notice, self.talk.notice = self.talk.notice, ""
            self.chat.notice.show_error(notice)

    def _on_dropped(self, count: int) -> None:
        self.talk.unread += count
        self.chat.set_unread(self.talk.unread)
        messages = "message is" if count == 1 else "messages are"
        self.chat.notice.show_note(
            f"The context is full: the {count:,} oldest {messages} no longer read by the model."
        )

    def _more(self) -> None:
        rows = [row for row in self.panel.model.rows if not hasattr(row, "excerpt")]
        more = self.talk.store.chats(PAGE, after=rows[-1] if rows else None)
        self.panel.model.add_rows(more, len(more) == PAGE)

    def _rename(self, id: int, title: str) -> None:
        self._in_store(lambda: self.talk.store.rename(id, title))

    def _delete(self, id: int) -> None:
        try:
            title = self.talk.store.chat(id).title
            self.talk.store.delete(id)
        except StoreError as error:
            self.chat.notice.show_error(str(error))
            return
        if self.talk.row is not None and id == self.talk.row.id:
            self.new()
        self.panel.offer_undo(id, title)
        self.refresh()
        self.changed.emit()

    def _undo(self, id: int) -> None:
        self._in_store(lambda: self.talk.store.restore(id))
        self.open(id)

    def _in_store(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except StoreError as error:
            self.chat.notice.show_error(str(error))
        self.refresh()
