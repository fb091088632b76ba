"""The conversation: the shown path of messages, the reply as it comes, and the box to write in."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QStackedLayout, QVBoxLayout, QWidget

from studio.core.conversation import Attachment, Message
from studio.ui import parts
from studio.ui.empty import EmptyState
from studio.ui.errors import Notice
from studio.ui.message import Reply, UserMessage
from studio.ui.prompt import PromptBox
from veloxquant_mlx.steps import Reuse

if TYPE_CHECKING:
    from studio.core.compared import ReplyComparison

COLUMN = 720
"""Widest line of words in pixels at 100 %: longer ones are hard to read."""
AT_ONCE = 60
"""Messages put on the page at once; older ones wait behind a button."""
END = "end"
"""The place of a page that follows its end."""

Versions = Callable[[int], Sequence[int]]


class Chat(QWidget):
    """Signals carry what the person wants; the window shows a path and hands on how the last reply grows."""

    send_requested = Signal(str, object)
    """Text and files."""
    edit_requested = Signal(int, str, object)
    """Message to say differently, text and files."""
    stop_requested = Signal()
    regenerate_requested = Signal(int)
    continue_requested = Signal(int)
    version_chosen = Signal(int)
    link_clicked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Conversation")
        self._path: list[Message] = []
        self._versions: Versions = lambda id: [id]
        self._shown: list[UserMessage | Reply] = []
        self._current: Reply | None = None
        self._editing: int | None = None
        self._stick = True
        self._wanted: str | None = None
        self._ready = False
        self._compared: Mapping[int, Sequence[ReplyComparison]] = {}

        self.empty = EmptyState()
        self._column = QVBoxLayout()
        parts.margins(self._column, 0, 16, 0, 16, 16)
        self._earlier = parts.button(
            "Show earlier messages", "chip", "Put the messages before these on the page"
        )
        self._earlier.clicked.connect(self._show_earlier)
        self._earlier.hide()
        self._column.addWidget(self._earlier)
        self._column.addStretch(1)
        inner = QWidget()
        inner.setMaximumWidth(COLUMN + 40)
        inner.setLayout(self._column)
        outer = QWidget()
        centre = self._centre = QHBoxLayout(outer)
        parts.margins(centre, 20, 0, 20, 0, 0)
        centre.addStretch(1)
        centre.addWidget(inner, 1000)
        centre.addStretch(1)
        self.area = QScrollArea()
        self.area.setWidget(outer)
        parts.clear_scroll(self.area)
        self.area.setAccessibleName("Messages")
        bar = self.area.verticalScrollBar()
        bar.valueChanged.connect(self._scrolled)
        bar.rangeChanged.connect(self._grown)

        self._pages = QStackedLayout()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.area)

        self.notice = Notice(wide=True)
        self.prompt = PromptBox()
        self.below = QVBoxLayout()
        """Notice, box, and what the window puts under them."""
        parts.margins(self.below, 0, 0, 0, 0, 8)
        for item in (self.notice, self.prompt):
            self.below.addWidget(item)
        # As wide as the messages above, and in their middle.
        column_below = QWidget()
        column_below.setMaximumWidth(COLUMN + 40)
        column_below.setLayout(self.below)
        foot = QHBoxLayout()
        parts.margins(foot, 20, 0, 20, 10, 0)
        foot.addStretch(1)
        foot.addWidget(column_below, 1000)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 8)
        column.addLayout(self._pages, 1)
        column.addLayout(foot)

        self.prompt.submitted.connect(self._submit)
        self.prompt.stop_requested.connect(self.stop_requested)
        self.prompt.edit_cancelled.connect(self.stop_editing)
        self.prompt.refused.connect(self.notice.show_error)
        self.empty.example_chosen.connect(self._use_example)

    # What the window tells the conversation ----------------------------------------------------

    def set_ready(self, reason: str) -> None:
        """'' when messages can be sent, otherwise why not."""
        self._ready = not reason
        self.prompt.set_ready(reason)
        self._update()

    def is_empty(self) -> bool:
        """True before the first message."""
        return not self._path

    def is_replying(self) -> bool:
        """True while the last reply grows."""
        return self._current is not None

    def can_regenerate(self) -> bool:
        """True when there is something to answer and nothing is being answered."""
        return self._ready and self._current is None and bool(self._path)

    def can_go_on(self) -> bool:
        """True when the last reply was cut short."""
        last = self._shown[-1] if self._shown else None
        return self.can_regenerate() and isinstance(last, Reply) and last.can_go_on()

    def shown(self) -> list[UserMessage | Reply]:
        """The messages on the page, first to last."""
        return list(self._shown)

    def show_path(self, path: Sequence[Message], versions: Versions) -> None:
        """Show these messages; those that are on the page already stay there."""
        self._versions = versions
        kept = 0
        start = self._start(path)
        wanted = path[start:]
        if self._shown and wanted and self._shown[0].message.id == wanted[0].id:
            while kept < min(len(self._shown), len(wanted)) and (
                self._shown[kept].message.id == wanted[kept].id
            ):
                kept += 1
        self._drop(kept)
        self._path = list(path)
        for message in wanted[kept:]:
            self._add(message)
        self._earlier.setVisible(start > 0)
        self._pages.setCurrentIndex(1 if path else 0)
        if not path:
            self.notice.clear()
        self._update()

    def set_unread(self, count: int) -> None:
        """So many messages at the beginning are not read by the model any more."""
        last = self._path[count - 1].id if 0 < count <= len(self._path) else None
        for shown in self._shown:
            shown.set_unread_to(shown.message.id == last)

    def set_comparisons(self, compared: Mapping[int, Sequence["ReplyComparison"]]) -> None:
        """How replies stand against the uncompressed cache, by message; others say nothing of it."""
        before, self._compared = self._compared, compared
        for shown in self._shown:
            id = shown.message.id
            if isinstance(shown, Reply) and shown is not self._current and before.get(id) != compared.get(id):
                shown.set_comparison(compared.get(id, ()))

    def begin(self, kind: str) -> None:
        """The last message of the path, a reply, grows from now on; ``kind`` as in Request."""
        last = self._shown[-1]
        if not isinstance(last, Reply):
            raise TypeError("Only a reply can grow.")
        self.notice.clear()
        self.stop_editing()
        self._stick = True
        self._current = last
        last.set_growing(True)
        self.prompt.set_replying(True)
        self._update()

    def prefill(self, done: int, total: int, reuse: Reuse | None = None) -> None:
        """How much of the prompt was read; ``reuse`` comes once, before any of it."""
        if self._current is not None:
            self._current.set_prefill(done, total, reuse)

    def append(self, text: str) -> None:
        """More text of the running reply."""
        if self._current is not None:
            self._current.append(text)

    def running_text(self) -> str | None:
        """The running reply as far as it goes, None while none runs."""
        return None if self._current is None else self._current.text()

    def finish(self, message: Message) -> None:
        """The running reply ended; a second call does nothing."""
        if self._current is not None:
            self._current.finish(message)
            self._current.set_comparison(self._compared.get(message.id, ()))
            self._path[-1] = message
            self._end()

    def fail(self, message: Message | None, sentence: str, details: str = "") -> None:
        """The running reply failed; ``message`` is what is left of it, None when nothing is."""
        if message is not None and self._current is not None:
            current = self._current
            self.finish(message)
            current.notice.show_error(sentence, details)
        else:
            self.notice.show_error(sentence, details)
        self._end()

    def give_back(self, text: str, files: Sequence[Attachment]) -> None:
        """A message that was not answered returns to the box, unless something else was begun there."""
        if not self.prompt.text() and not self.prompt.files():
            self.prompt.set_text(text, files)

    def edit(self, id: int) -> None:
        """Put a message into the box; sending makes another version of it."""
        message = next(m for m in self._path if m.id == id)
        self._editing = id
        self.prompt.set_text(message.text, message.files)
        self.prompt.set_editing(True)
        self.prompt.setFocus()

    def stop_editing(self) -> None:
        """Leave the message as it is."""
        if self._editing is not None:
            self._editing = None
            self.prompt.set_text("")
            self.prompt.set_editing(False)

    # Where the page stands ---------------------------------------------------------------------

    def place(self) -> str:
        """Where the page is scrolled to: END, or a message and how far it is scrolled out."""
        if self._stick or not self._shown:
            return END
        top = self.area.verticalScrollBar().value()
        for shown in self._shown:
            if shown.y() + shown.height() > top:
                return f"{shown.message.id}:{top - shown.y()}"
        return END

    def go_to(self, place: str) -> None:
        """Scroll to a place, once the page is laid out; a message's number alone is its beginning."""
        id, _, offset = place.partition(":")
        if not id.isdecimal():
            self._stick, self._wanted = True, None
            QTimer.singleShot(0, self, self._to_end)
            return
        while self._earlier.isVisibleTo(self) and self._widget(int(id)) is None:
            self._show_earlier()
        self._stick = False
        self._wanted = place if offset else f"{id}:-16"
        QTimer.singleShot(0, self, self._to_wanted)

    # Inside ------------------------------------------------------------------------------------

    def _submit(self, text: str, files: tuple[Attachment, ...]) -> None:
        self._stick = True
        if self._editing is None:
            self.send_requested.emit(text, files)
            return
        id, self._editing = self._editing, None
        self.prompt.set_editing(False)
        self.edit_requested.emit(id, text, files)

    def _use_example(self, text: str) -> None:
        self.prompt.set_text(text, self.prompt.files())
        self.prompt.setFocus()

    def _end(self) -> None:
        self._current = None
        self.prompt.set_replying(False)
        self._update()

    def _update(self) -> None:
        """What can be done with each message now."""
        free = self._ready and self._current is None
        for shown in self._shown:
            shown.set_versions(self._versions(shown.message.id), enabled=self._current is None)
            if isinstance(shown, Reply):
                shown.set_last(free and shown is self._shown[-1])
            else:
                shown.edit_button.setEnabled(free)

    def _start(self, path: Sequence[Message]) -> int:
        """Where the page begins in the path: it stays where it is while that is part of it."""
        first = self._shown[0].message.id if self._shown else None
        for number, message in enumerate(path):
            if message.id == first:
                return number
        return max(0, len(path) - AT_ONCE)

    def _show_earlier(self) -> None:
        """Put more of the beginning on the page, without moving what is looked at."""
        start = self._start(self._path)
        bar = self.area.verticalScrollBar()
        from_end = bar.maximum() - bar.value()
        for message in reversed(self._path[max(0, start - AT_ONCE) : start]):
            self._add(message, at=0)
        self._earlier.setVisible(start > AT_ONCE)
        self._update()
        self._stick = False

        def back() -> None:
            bar.setValue(bar.maximum() - from_end)

        QTimer.singleShot(0, self, back)

    def _add(self, message: Message, at: int | None = None) -> None:
        made: UserMessage | Reply
        if message.role == "user":
            made = UserMessage(message)
            made.edit_requested.connect(self.edit)
        else:
            made = Reply(message)
            made.regenerate_requested.connect(self.regenerate_requested)
            made.continue_requested.connect(self.continue_requested)
            made.set_comparison(self._compared.get(message.id, ()))
        made.version_chosen.connect(self.version_chosen)
        made.link_clicked.connect(self.link_clicked)
        place = len(self._shown) if at is None else at
        self._shown.insert(place, made)
        # The button for earlier ones comes first in the column.
        self._column.insertWidget(1 + place, made)

    def _drop(self, kept: int) -> None:
        for shown in self._shown[kept:]:
            if shown is self._current:
                self._current = None
                self.prompt.set_replying(False)
            self._column.removeWidget(shown)
            shown.hide()
            shown.deleteLater()
        del self._shown[kept:]
        if self._editing is not None and all(m.id != self._editing for m in self._path):
            self.stop_editing()

    def _widget(self, id: int) -> UserMessage | Reply | None:
        return next((shown for shown in self._shown if shown.message.id == id), None)

    def _scrolled(self, value: int) -> None:
        """The person left the end, or came back to it."""
        if self._wanted is None:
            self._stick = value >= self.area.verticalScrollBar().maximum() - 8

    def _grown(self, _low: int, high: int) -> None:
        # The scroll bar takes its width out of the margin, so that words and box stay in line.
        bar = self.area.verticalScrollBar().sizeHint().width() if high > 0 else 0
        self._centre.setContentsMargins(20, 0, max(0, 20 - bar), 0)
        if self._wanted is not None:
            QTimer.singleShot(0, self, self._to_wanted)
        else:
            # At once: a turn of the loop later everything would be painted twice.
            self._to_end()

    def _to_wanted(self) -> None:
        if self._wanted is None:
            return
        id, _, offset = self._wanted.partition(":")
        shown = self._widget(int(id))
        if shown is None:
            self._wanted = None
        elif shown.height() and self.area.verticalScrollBar().maximum() > 0:
            self.area.verticalScrollBar().setValue(shown.y() + int(offset or 0))
            # The layout settles within a few turns of the loop; after that the person has the page.
            QTimer.singleShot(150, self, self._arrived)

    def _arrived(self) -> None:
        self._wanted = None

    def _to_end(self) -> None:
        if self._stick:
            bar = self.area.verticalScrollBar()
            bar.setValue(bar.maximum())
