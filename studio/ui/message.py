"""What was said: a bubble of the person's words, and the model's text with its figures below."""

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QTextEdit, QVBoxLayout, QWidget

from studio.ui import markdown, parts, words
from studio.ui.errors import Notice
from studio.ui.theme import tokens
from veloxquant_mlx.steps import FinishedStep, Reuse


class TextView(QTextEdit):
    """Read-only text as high as its words need; the conversation scrolls, not the view."""

    def __init__(self, name: str) -> None:
        super().__init__()
        document = markdown.SafeDocument(self)
        document.setDocumentMargin(0)
        self.setDocument(document)
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        # Links stay words: selecting is allowed, following is not.
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        document.documentLayout().documentSizeChanged.connect(lambda _size: self._fit())

    def sizeHint(self) -> QSize:
        """The document's own height."""
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The conversation scrolls."""
        event.ignore()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width is another height."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        height = int(self.document().size().height() + 0.99) + 1
        if height != self.minimumHeight():
            self.setFixedHeight(height)


SHOWN = 4_000
"""Characters of a message that its bubble shows; a pasted book would bury the conversation."""


class UserMessage(QWidget):
    """The person's words in a bubble at the right, as wide as they need. ``said`` is all of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said = text
        self.view = TextView("You")
        self.view.setPlainText(markdown.broken(words.clean(text[:SHOWN])))
        self._bubble = parts.surface("bubble")
        inner = QVBoxLayout(self._bubble)
        parts.margins(inner, 13, 9, 13, 9, 0)
        inner.addWidget(self.view)
        if len(text) > SHOWN:
            inner.addWidget(parts.label(f"and {words.count(len(text) - SHOWN, 'more character')}", "small"))
        row = QHBoxLayout(self)
        parts.margins(row, 0, 0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._bubble)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """At most seven eighths of the column."""
        super().resizeEvent(event)
        probe = self.view.document().clone()
        probe.setDefaultFont(self.view.font())
        probe.setTextWidth(-1)
        wanted = int(probe.idealWidth()) + 2 + 26
        self._bubble.setFixedWidth(max(48, min(wanted, self.width() * 7 // 8)))


class Reply(QWidget):
    """The model's text, first as it comes, then as Markdown; figures, an error or progress below."""

    regenerate_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._text: list[str] = []
        self._line = 0
        self._started = False
        self._reuse: Reuse | None = None
        self._final: str | None = None
        self.view = TextView("Model")
        self.view.hide()
        self.status = parts.label("", "small", wrap=True)
        self.status.setText("Reading the prompt")
        self._figures = parts.label("", "small", wrap=True)
        self._figures.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.regenerate_button = parts.button(
            "Regenerate", "link", "Answer the same message again through the current cache (Ctrl+R)"
        )
        self.copy_button = parts.button("Copy", "link", "Copy the reply as it was written", "Copy reply")
        self.regenerate_button.clicked.connect(self.regenerate_requested)
        self.copy_button.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(words.clean(self.text()))
        )
        self.notice = Notice(wide=True)
        self._foot = QWidget()
        foot = QHBoxLayout(self._foot)
        parts.margins(foot, 0, 0, 0, 0, 4)
        foot.addWidget(self._figures, 1)
        foot.addWidget(self.copy_button, 0, Qt.AlignmentFlag.AlignTop)
        foot.addWidget(self.regenerate_button, 0, Qt.AlignmentFlag.AlignTop)
        self._foot.hide()
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 4)
        for item in (self.view, self.status, self._foot, self.notice):
            column.addWidget(item)

    def text(self) -> str:
        """The reply as the model wrote it."""
        return self._final if self._final is not None else "".join(self._text)

    def figures(self) -> str:
        """The line below a finished reply."""
        return self._figures.text()

    def set_prefill(self, done: int, total: int, reuse: Reuse | None = None) -> None:
        """How much of the prompt was read; ``reuse`` comes once, before any of it."""
        self._reuse = reuse or self._reuse
        self.status.setText(words.reading(done, total, self._reuse))
        self.status.show()

    def append(self, text: str) -> None:
        """Put more text at the end. Only the last paragraph is laid out again."""
        if not text or self._final is not None:
            return
        self.status.hide()
        self._text.append(text)
        self.view.show()
        cursor = QTextCursor(self.view.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if not self._started:
            cursor.setBlockFormat(markdown.prose())
            self._started = True
        # A paragraph is laid out as a whole: one without an end would cost more with every token.
        lines = markdown.broken(words.clean(text)).split("\n")
        for number, line in enumerate(lines):
            if number or self._line > markdown.LONGEST_LINE:
                cursor.insertBlock(markdown.prose())
                self._line = 0
            cursor.insertText(line)
            self._line += len(line)

    def finish(self, step: FinishedStep) -> None:
        """Show the whole reply as Markdown and say how it went."""
        self._final = step.text
        self.status.hide()
        self.render_text()
        speed = "" if step.decode_speed is None else f"{words.speed(step.decode_speed)} measured"
        if step.reply_tokens:
            facts = [words.count(step.reply_tokens, "token"), speed, words.reason(step.reason)]
        else:
            facts = [words.reason(step.reason), "before the first word"]
        said = ", ".join(fact for fact in facts if fact) + "."
        read = words.was_read(step.prompt_tokens, step.reuse)
        self._figures.setText(f"{said[:1].upper()}{said[1:]} {read}".rstrip())
        self.copy_button.setVisible(bool(self._final))
        self._foot.show()

    def fail(self, sentence: str, details: str) -> None:
        """Keep what came, as text, and say below it what went wrong."""
        self._final = self.text()
        self.status.hide()
        self.notice.show_error(sentence, details)

    def cancel(self) -> None:
        """Keep what came; it was stopped before its figures were known."""
        self._final = self.text()
        self.status.hide()
        self.render_text()
        self._figures.setText(f"{words.reason('stopped').capitalize()}.")
        self._foot.show()

    def set_last(self, last: bool) -> None:
        """Only the last reply can be made again."""
        self.regenerate_button.setVisible(last)

    def render_text(self) -> None:
        """Lay the finished text out with the current colours."""
        if self._final is None:
            return
        scale = self.view.font().pixelSize() / 13 if self.view.font().pixelSize() > 0 else 1.0
        self.view.setVisible(bool(self._final))
        markdown.render(self.view.document(), self._final, tokens(), scale)

    def changeEvent(self, event: QEvent) -> None:
        """Code is drawn on a surface of the scheme: another scheme, another rendering."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._final is not None:
            # Later: while Qt goes from widget to widget with new colours, none should be rebuilt.
            QTimer.singleShot(0, self, self.render_text)
