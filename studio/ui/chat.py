"""The conversation: what was said, the reply as it comes, and the box to write in."""

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QStackedLayout, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.empty import EmptyState
from studio.ui.errors import Notice
from studio.ui.message import Reply, UserMessage
from studio.ui.prompt import PromptBox
from veloxquant_mlx.steps import FinishedStep, Reuse

COLUMN = 720
"""Widest line of words in pixels at 100 %: longer ones are hard to read."""


class Chat(QWidget):
    """Signals carry what the person wants; steps come in through begin, prefill, append and finish."""

    send_requested = Signal(str)
    stop_requested = Signal()
    regenerate_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Conversation")
        self._messages: list[UserMessage | Reply] = []
        self._current: Reply | None = None
        self._again = False
        self._stick = True
        self._ready = False

        self.empty = EmptyState()
        self._column = QVBoxLayout()
        parts.margins(self._column, 0, 16, 0, 16, 16)
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
        self.prompt.setMaximumWidth(COLUMN + 40)
        self.notice.setMaximumWidth(COLUMN + 40)
        below = QVBoxLayout()
        parts.margins(below, 0, 0, 0, 0, 8)
        below.addWidget(self.notice)
        below.addWidget(self.prompt)
        foot = QHBoxLayout()
        parts.margins(foot, 20, 0, 20, 14, 0)
        foot.addStretch(1)
        foot.addLayout(below, 1000)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 8)
        column.addLayout(self._pages, 1)
        column.addLayout(foot)

        self.prompt.submitted.connect(self.send_requested)
        self.prompt.stop_requested.connect(self.stop_requested)
        self.empty.example_chosen.connect(self._use_example)

    # What the window tells the conversation ----------------------------------------------------

    def set_ready(self, reason: str) -> None:
        """'' when messages can be sent, otherwise why not."""
        self._ready = not reason
        self.prompt.set_ready(reason)
        self._last()

    def is_empty(self) -> bool:
        """True before the first message."""
        return not self._messages

    def can_regenerate(self) -> bool:
        """True when the last thing said is a finished reply."""
        return self._ready and self._current is None and self._last_user() is not None

    def clear(self) -> None:
        """A new conversation."""
        for message in self._messages:
            self._drop(message)
        self._messages.clear()
        self._current = None
        self.notice.clear()
        self.prompt.set_replying(False)
        self._pages.setCurrentIndex(0)

    def ask(self, text: str) -> None:
        """Show what the person says."""
        self._stick = True
        self.notice.clear()
        self._add(UserMessage(text))

    def begin(self, kind: str) -> None:
        """A reply begins; for ``regenerate`` the last one goes first."""
        if self._current is not None:
            return
        if kind == "regenerate" and self._messages and isinstance(self._messages[-1], Reply):
            self._drop(self._messages.pop())
        self.notice.clear()
        self._again = kind == "regenerate"
        self._current = Reply()
        self._current.regenerate_requested.connect(self.regenerate_requested)
        self._add(self._current)
        self.prompt.set_replying(True)
        self._last()

    def prefill(self, done: int, total: int, reuse: Reuse | None = None) -> None:
        """How much of the prompt was read; ``reuse`` comes once, before any of it."""
        if self._current is not None:
            self._current.set_prefill(done, total, reuse)

    def append(self, text: str) -> None:
        """More text of the running reply."""
        if self._current is not None:
            self._current.append(text)

    def finish(self, step: FinishedStep) -> None:
        """The running reply ended; a second call does nothing."""
        if self._current is not None:
            self._current.finish(step)
            self._end()

    def fail(self, sentence: str, details: str = "") -> None:
        """A reply failed. Without a word of it the message goes back into the box."""
        current = self._current
        if current is not None and current.text():
            current.fail(sentence, details)
        else:
            self._take_back()
            self.notice.show_error(sentence, details)
        self._end()

    def cancel(self) -> None:
        """The person stopped a reply before it had an end of its own."""
        if self._current is not None and self._current.text():
            self._current.cancel()
        elif self._current is not None:
            self._take_back()
        self._end()

    def _take_back(self) -> None:
        """Without a word of the reply, a new message returns to the box; one answered before stays."""
        if self._current is not None:
            self._messages.remove(self._current)
            self._drop(self._current)
            self._current = None
        user = self._messages[-1] if self._messages and not self._again else None
        if isinstance(user, UserMessage):
            self._messages.pop()
            self._drop(user)
            if not self.prompt.text():
                self.prompt.set_text(user.said)
        if not self._messages:
            self._pages.setCurrentIndex(0)

    # Inside ------------------------------------------------------------------------------------

    def _use_example(self, text: str) -> None:
        self.prompt.set_text(text)
        self.prompt.setFocus()

    def _end(self) -> None:
        self._current = None
        self.prompt.set_replying(False)
        self._last()

    def _last(self) -> None:
        for message in self._messages:
            if isinstance(message, Reply):
                message.set_last(message is self._messages[-1] and self.can_regenerate())

    def _last_user(self) -> UserMessage | None:
        return next((m for m in reversed(self._messages) if isinstance(m, UserMessage)), None)

    def _add(self, message: UserMessage | Reply) -> None:
        self._messages.append(message)
        self._column.insertWidget(self._column.count() - 1, message)
        self._pages.setCurrentIndex(1)

    def _drop(self, message: UserMessage | Reply) -> None:
        self._column.removeWidget(message)
        message.hide()
        message.deleteLater()

    def _scrolled(self, value: int) -> None:
        """The person left the end, or came back to it."""
        self._stick = value >= self.area.verticalScrollBar().maximum() - 8

    def _grown(self, _low: int, high: int) -> None:
        # The scroll bar takes its width out of the margin, so that words and box stay in line.
        bar = self.area.verticalScrollBar().sizeHint().width() if high > 0 else 0
        self._centre.setContentsMargins(20, 0, max(0, 20 - bar), 0)
        if self._stick:
            QTimer.singleShot(0, self._to_end)

    def _to_end(self) -> None:
        bar = self.area.verticalScrollBar()
        bar.setValue(bar.maximum())
