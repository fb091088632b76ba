"""Where the person writes: a box that grows with its words, and one button that sends or stops."""

import re

from PySide6.QtCore import QEvent, QMimeData, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextOption
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QSizePolicy, QWidget

from studio.ui import parts

_MOST_LINES = 8
_LONG_WORD = re.compile(r"\S{2000}")


class _Editor(QPlainTextEdit):
    """Plain text; Return makes a line, with Ctrl or Cmd it sends."""

    sent = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+Return, or Cmd+Return on a Mac, sends."""
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.sent.emit()
            return
        super().keyPressEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste or drop."""
        self.prepare(source.text())
        super().insertFromMimeData(source)

    def prepare(self, text: str) -> None:
        """Get ready for ``text``: Qt looks for the end of an unbroken word anew at each of its lines."""
        if _LONG_WORD.search(text):
            self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)


class PromptBox(QFrame):
    """``submitted`` carries the text; ``stop_requested`` while a reply runs."""

    submitted = Signal(str)
    stop_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "prompt")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._replying = False
        self._reason = ""
        self.editor = _Editor()
        self.editor.setAccessibleName("Message")
        self.editor.setTabChangesFocus(True)
        self.editor.setFrameShape(QFrame.Shape.NoFrame)
        self.editor.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.editor.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.editor.document().setDocumentMargin(2)
        self.button = parts.button("Send", "primary")
        self.button.setMinimumSize(QSize(72, 28))
        row = QHBoxLayout(self)
        parts.margins(row, 12, 10, 12, 10, 10)
        row.addWidget(self.editor, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        self.editor.textChanged.connect(self._changed)
        self.editor.sent.connect(self.submit)
        self.editor.installEventFilter(self)
        self.button.clicked.connect(self._clicked)
        self.setFocusProxy(self.editor)
        self.set_ready("Load a model to write to it.")

    def text(self) -> str:
        """What is written."""
        return self.editor.toPlainText()

    def set_text(self, text: str) -> None:
        """Put words into the box and the cursor behind them."""
        self.editor.prepare(text)
        self.editor.setPlainText(text)
        self.editor.moveCursor(self.editor.textCursor().MoveOperation.End)

    def set_ready(self, reason: str) -> None:
        """'' when a message can be sent, otherwise why not, which the empty box then says."""
        self._reason = reason
        key = "⌘ Return" if parts.IS_MAC else "Ctrl+Return"
        self.editor.setPlaceholderText(reason or f"Write a message. {key} sends.")
        # Qt repaints a placeholder when it appears, not when its words change.
        self.editor.viewport().update()
        self._changed()

    def set_replying(self, replying: bool) -> None:
        """The button stops while a reply runs."""
        self._replying = replying
        self._changed()

    def submit(self) -> None:
        """Send what is written, if it can be sent."""
        text = self.text()
        if text.strip() and not self._replying and not self._reason:
            self.editor.clear()
            self.submitted.emit(text)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The frame shows the editor's focus and follows its width."""
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            parts.restyle(self, active="true" if event.type() == QEvent.Type.FocusIn else "false")
        elif event.type() in (QEvent.Type.Resize, QEvent.Type.FontChange, QEvent.Type.Polish):
            self._grow()
        return super().eventFilter(watched, event)

    def _clicked(self) -> None:
        if self._replying:
            self.stop_requested.emit()
        else:
            self.submit()

    def _changed(self) -> None:
        text = self.text()
        if not text:
            self.editor.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        can_send = bool(text.strip()) and not self._reason
        had_focus = self.window().focusWidget() is self.button
        if had_focus and not self._replying and not can_send:
            # A disabled button would hand the focus to whatever comes next.
            self.editor.setFocus()
        self.button.setText("Stop  Esc" if self._replying else "Send")
        self.button.setAccessibleName("Stop the reply" if self._replying else "Send the message")
        self.button.setEnabled(self._replying or can_send)
        self.button.setToolTip(self._reason if not self._replying else "Keep what was said so far")
        parts.restyle(self.button, role="" if self._replying else "primary")
        self._grow()

    def _grow(self) -> None:
        """One to eight lines high, then it scrolls."""
        lines = max(1, round(self.editor.document().size().height()))
        spacing = self.editor.fontMetrics().lineSpacing()
        air = max(2.0, (28 - spacing) / 2)
        if abs(self.editor.document().documentMargin() - air) > 0.1:
            self.editor.document().setDocumentMargin(air)
        is_full = lines > _MOST_LINES
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if is_full else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.editor.setVerticalScrollBarPolicy(policy)
        wanted = round(min(lines, _MOST_LINES) * spacing + 2 * air)
        if self.editor.height() != wanted:
            self.editor.setFixedHeight(wanted)
