"""What was said: a bubble of the person's words, and the model's text with its figures below."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QTextDocument
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from studio.core.conversation import Message
from studio.ui import markdown, parts, words
from studio.ui.blocks import Body
from studio.ui.errors import Notice
from studio.ui.textview import TextView
from studio.ui.tints import FidelityLine
from studio.ui.token_fidelity import summary, tinted
from veloxquant_mlx.steps import Reuse

if TYPE_CHECKING:
    from studio.core.compared import ReplyComparison

SHOWN = 4_000
"""Characters of a message that its bubble shows; a pasted book would bury the conversation."""


class Versions(QWidget):
    """'‹ 2 / 3 ›' where a message has versions. ``chosen`` carries the id of another one."""

    chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._ids: list[int] = []
        self._at = 0
        self.back = parts.button("‹", "arrow", "Show the version before", "Version before")
        self.on = parts.button("›", "arrow", "Show the version after", "Version after")
        self.label = parts.label("", "small")
        row = QHBoxLayout(self)
        parts.margins(row, 0, 0, 0, 0, 0)
        for item in (self.back, self.label, self.on):
            row.addWidget(item)
        self.back.clicked.connect(lambda: self.chosen.emit(self._ids[self._at - 1]))
        self.on.clicked.connect(lambda: self.chosen.emit(self._ids[self._at + 1]))
        self.hide()

    def show_versions(self, ids: Sequence[int], shown: int, *, enabled: bool = True) -> None:
        """The versions of a message, oldest first."""
        self._ids = list(ids)
        self._at = self._ids.index(shown)
        self.label.setText(f"{self._at + 1} / {len(ids)}")
        self.back.setEnabled(enabled and self._at > 0)
        self.on.setEnabled(enabled and self._at < len(ids) - 1)
        self.setVisible(len(ids) > 1)


class Shown(QWidget):
    """A message on the page; ``message`` is what it shows. Signals carry message ids."""

    version_chosen = Signal(int)
    link_clicked = Signal(str)

    def __init__(self, message: Message) -> None:
        super().__init__()
        self.message = message
        self.versions = Versions()
        self.versions.chosen.connect(self.version_chosen)
        self.copy_button = parts.button("Copy", "link", "Copy the text as it was written", "Copy message")
        self.copy_button.clicked.connect(self._copied)
        self._unread = parts.label("The context was full: the model reads only what follows.", "warn")
        self._unread.hide()

    def set_unread_to(self, last_unread: bool) -> None:
        """Say below this message that the model reads only what follows it."""
        if last_unread == self._unread.isHidden():
            self._unread.setVisible(last_unread)

    def text(self) -> str:
        """What Copy copies."""
        return self.message.text

    def set_versions(self, ids: Sequence[int], *, enabled: bool) -> None:
        """The versions of this message."""
        self.versions.show_versions(ids, self.message.id, enabled=enabled)

    def _copied(self) -> None:
        QGuiApplication.clipboard().setText(words.clean(self.text()))


class UserMessage(Shown):
    """The person's words in a bubble at the right, as wide as they need, the files above them."""

    edit_requested = Signal(int)

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        text = message.text
        self.view = TextView("You")
        self.view.setPlainText(markdown.broken(words.clean(text[:SHOWN])))
        self._bubble = parts.surface("bubble")
        inner = QVBoxLayout(self._bubble)
        parts.margins(inner, 13, 9, 13, 9, 4)
        for file in message.files:
            said = f"{file.name}, {words.count(len(file.text), 'character')}"
            inner.addWidget(parts.label(words.clean(said), "small"))
        inner.addWidget(self.view)
        self.view.setVisible(bool(text))
        if len(text) > SHOWN:
            inner.addWidget(parts.label(f"and {words.count(len(text) - SHOWN, 'more character')}", "small"))
        self.edit_button = parts.button(
            "Edit", "link", "Say it differently; what was said stays as another version", "Edit message"
        )
        self.edit_button.clicked.connect(lambda: self.edit_requested.emit(self.message.id))
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._bubble)
        foot = QHBoxLayout()
        parts.margins(foot, 0, 0, 0, 0, 4)
        foot.addStretch(1)
        for item in (self.versions, self.copy_button, self.edit_button):
            foot.addWidget(item)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 2)
        column.addLayout(row)
        column.addLayout(foot)
        column.addWidget(self._unread)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """At most seven eighths of the column."""
        super().resizeEvent(event)
        # Not a clone of the view's document: nobody would ever free it.
        probe = QTextDocument(self.view.toPlainText())
        probe.setDocumentMargin(0)
        probe.setDefaultFont(self.view.font())
        wanted = int(probe.idealWidth()) + 2 + 26
        if self.message.files:
            wanted = max(wanted, self._bubble.sizeHint().width())
        self._bubble.setFixedWidth(max(48, min(wanted, self.width() * 7 // 8)))


class Reply(Shown):
    """The model's text as it comes; figures, an error or progress below."""

    regenerate_requested = Signal(int)
    continue_requested = Signal(int)

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self._reuse: Reuse | None = None
        self.body = Body()
        self.body.link_clicked.connect(self.link_clicked)
        self.status = parts.label("", "small", wrap=True)
        self._figures = parts.label("", "small", wrap=True)
        self._figures.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.regenerate_button = parts.button(
            "Regenerate",
            "link",
            "Answer again through the current cache; this reply stays as a version (Ctrl+R)",
        )
        self.continue_button = parts.button("Continue", "link", "Let the model go on where this reply ends")
        self.regenerate_button.clicked.connect(lambda: self.regenerate_requested.emit(self.message.id))
        self.continue_button.clicked.connect(lambda: self.continue_requested.emit(self.message.id))
        self.notice = Notice(wide=True)
        self.fidelity = FidelityLine()
        self._foot = QWidget()
        foot = QVBoxLayout(self._foot) if parts.large_text() else QHBoxLayout(self._foot)
        parts.margins(foot, 0, 0, 0, 0, 4)
        foot.addWidget(self._figures, 1)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 4)
        for item in (self.versions, self.copy_button, *self.buttons()):
            row.addWidget(item, 0, Qt.AlignmentFlag.AlignTop)
        if parts.large_text():
            row.addStretch(1)
        foot.addLayout(row)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 4)
        for piece in (self.body, self.status, self._foot, self.fidelity, self.notice, self._unread):
            column.addWidget(piece)
        if message.text:
            self.body.append(message.text)
        self.set_growing(message.ended is None)
        if message.ended is not None:
            self.finish(message)

    def buttons(self) -> tuple[QPushButton, ...]:
        """What only the last reply can do."""
        return (self.continue_button, self.regenerate_button)

    def text(self) -> str:
        """The reply as the model wrote it so far."""
        return self.body.text()

    def figures(self) -> str:
        """The line below a finished reply."""
        return self._figures.text()

    def set_growing(self, growing: bool) -> None:
        """While it grows there is progress instead of figures."""
        self.status.setText("Reading the prompt")
        self.status.setVisible(growing)
        self._reuse = None
        self._foot.setVisible(not growing)
        if growing:
            self.body.prepare()
            self.notice.clear()
            self.set_comparison(())

    def set_prefill(self, done: int, total: int, reuse: Reuse | None = None) -> None:
        """How much of the prompt was read; ``reuse`` comes once, before any of it."""
        self._reuse = reuse or self._reuse
        self.status.setText(words.reading(done, total, self._reuse))
        self.status.show()

    def append(self, text: str) -> None:
        """More text at the end."""
        if text:
            self.status.hide()
            self.body.append(text)

    def finish(self, message: Message) -> None:
        """It ended: the whole text, and how it went."""
        self.message = message
        self.set_growing(False)
        self.body.set_text(message.text)
        figures = message.figures
        tokens, rate = figures.reply_tokens, figures.tokens_per_second
        facts = [words.count(tokens, "token")] if tokens else []
        if rate is not None:
            facts.append(f"{words.speed(rate)} measured")
        facts.append(words.reason(message.ended or ""))
        if not message.text:
            facts.append("before the first word")
        facts += [f"through {figures.cache}"] if figures.cache else []
        said = ", ".join(facts)
        reuse = Reuse(figures.kept_tokens or 0, figures.again_tokens or 0)
        read = words.was_read(figures.prompt_tokens or 0, reuse)
        self._figures.setText(f"{said[:1].upper()}{said[1:]}. {read}".rstrip() if said else "")
        self._figures.setToolTip(f"Written by {words.clean(figures.model)}" if figures.model else "")
        self.copy_button.setVisible(bool(message.text))

    def set_comparison(self, compared: Sequence["ReplyComparison"]) -> None:
        """How it stands against the uncompressed cache, part by part as it was written; none says nothing."""
        tokens = tinted(compared)
        self.body.set_tokens(tokens)
        self.fidelity.show_summary(summary(compared), tokens)

    def can_go_on(self) -> bool:
        """False for a reply that the model itself ended, or that has no word yet."""
        return self.message.ended not in (None, "stop") and bool(self.message.text)

    def set_last(self, last: bool) -> None:
        """Only the last reply can go on or be made again."""
        self.regenerate_button.setVisible(last)
        self.continue_button.setVisible(last and self.can_go_on())
