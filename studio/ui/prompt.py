"""Where the person writes: a box that grows with its words, files above them, one button to send or stop."""

import re
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextOption
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from studio.core.attach import AttachError, read_text_file
from studio.core.conversation import Attachment
from studio.ui import parts, words

_MOST_LINES = 8
_LONG_WORD = re.compile(r"\S{2000}")


class _Editor(QPlainTextEdit):
    """Plain text; Return makes a line, with Ctrl or Cmd it sends."""

    sent = Signal()
    files_dropped = Signal(object)
    """list of paths as text."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+Return, or Cmd+Return on a Mac, sends."""
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.sent.emit()
            return
        super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Words and files."""
        return source.hasUrls() or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste or drop."""
        paths = [url.toLocalFile() for url in source.urls() if url.isLocalFile()]
        if paths:
            self.files_dropped.emit(paths)
            return
        self.prepare(source.text())
        super().insertFromMimeData(source)

    def prepare(self, text: str) -> None:
        """Get ready for ``text``: Qt looks for the end of an unbroken word anew at each of its lines."""
        if _LONG_WORD.search(text):
            self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)


class _File(QFrame):
    """One attached file: its name, its tokens, and a way to take it off."""

    def __init__(self, file: Attachment) -> None:
        super().__init__()
        self.setProperty("surface", "raised")
        self.file = file
        self.remove = parts.button("×", "link", f"Take {file.name} off", f"Take {file.name} off")
        self.words = parts.Elided()
        self.words.setProperty("text-role", "small")
        row = QHBoxLayout(self)
        parts.margins(row, 8, 2, 4, 2, 4)
        row.addWidget(self.words)
        row.addWidget(self.remove)
        self.set_tokens(None)

    def set_tokens(self, tokens: int | None) -> None:
        """How many tokens the model counts in it; None while nobody has counted."""
        length = words.count(len(self.file.text), "character")
        said = f"{length}, {words.count(tokens, 'token')} counted" if tokens is not None else length
        self.words.setText(words.clean(f"{self.file.name}, {said}"))
        self.words.setToolTip(self.words.text())


class PromptBox(QFrame):
    """``submitted`` carries text and files; ``stop_requested`` while a reply runs."""

    submitted = Signal(str, object)
    stop_requested = Signal()
    attached = Signal(object)
    """The Attachment that was just put on: someone may count its tokens."""
    refused = Signal(str)
    """Why a file can't be attached, one sentence."""
    edit_cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "prompt")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._replying = False
        self._reason = ""
        self._files: list[_File] = []
        self.editor = _Editor()
        self.editor.setAccessibleName("Message")
        self.editor.setTabChangesFocus(True)
        self.editor.setFrameShape(QFrame.Shape.NoFrame)
        self.editor.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.editor.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.editor.document().setDocumentMargin(2)
        self.attach_button = parts.button(
            "Attach",
            "quiet",
            "Put a text file before your message; its tokens are read with it",
            "Attach a text file",
        )
        self.button = parts.button("Send", "primary")
        for button in (self.attach_button, self.button):
            button.setMinimumSize(QSize(60, 28))
        self._banner = QWidget()
        banner = QHBoxLayout(self._banner)
        parts.margins(banner, 0, 0, 0, 0, 4)
        banner.addWidget(parts.label("Another version of an earlier message", "small"), 1)
        cancel = parts.button("Cancel", "link", "Leave the message as it is", "Cancel the edit")
        cancel.clicked.connect(self.edit_cancelled)
        banner.addWidget(cancel)
        self._banner.hide()
        self._row = QVBoxLayout()
        parts.margins(self._row, 0, 0, 0, 0, 4)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 6)
        row.addWidget(self.editor, 1)
        row.addWidget(self.attach_button, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        parts.margins(column, 12, 10, 12, 10, 4)
        column.addWidget(self._banner)
        column.addLayout(self._row)
        column.addLayout(row)
        self.editor.textChanged.connect(self._changed)
        self.editor.sent.connect(self.submit)
        self.editor.files_dropped.connect(self.attach)
        self.editor.installEventFilter(self)
        self.button.clicked.connect(self._clicked)
        self.attach_button.clicked.connect(self.ask_file)
        self.setFocusProxy(self.editor)
        self.set_ready("Load a model to write to it.")

    def text(self) -> str:
        """What is written."""
        return self.editor.toPlainText()

    def files(self) -> tuple[Attachment, ...]:
        """What is attached."""
        return tuple(shown.file for shown in self._files)

    def set_text(self, text: str, files: Sequence[Attachment] = ()) -> None:
        """Put words into the box and the cursor behind them, and files above them."""
        self.editor.prepare(text)
        self.editor.setPlainText(text)
        self.editor.moveCursor(self.editor.textCursor().MoveOperation.End)
        self._clear_files()
        for file in files:
            self._put_on(file)

    def set_editing(self, editing: bool) -> None:
        """Say above the words that they are another version of something said."""
        self._banner.setVisible(editing)

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
        text, files = self.text(), self.files()
        if (text.strip() or files) and not self._replying and not self._reason:
            self.editor.clear()
            self._clear_files()
            self.submitted.emit(text, files)

    def ask_file(self) -> None:
        """Choose text files to attach."""
        paths, _ = QFileDialog.getOpenFileNames(self.window(), "Attach text files", str(Path.home()))
        self.attach(paths)

    def attach(self, paths: Sequence[str]) -> None:
        """Attach text files; what can't be is said in one sentence."""
        for path in paths:
            try:
                file = read_text_file(Path(path))
            except AttachError as error:
                self.refused.emit(str(error))
                continue
            self._put_on(file)
            self.attached.emit(file)

    def set_tokens(self, file: Attachment, tokens: int) -> None:
        """How many tokens an attached file has, counted by the model's tokenizer."""
        for shown in self._files:
            if shown.file is file:
                shown.set_tokens(tokens)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The frame shows the editor's focus and follows its width."""
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            parts.restyle(self, active="true" if event.type() == QEvent.Type.FocusIn else "false")
        elif event.type() in (QEvent.Type.Resize, QEvent.Type.FontChange, QEvent.Type.Polish):
            self._grow()
        return super().eventFilter(watched, event)

    def _put_on(self, file: Attachment) -> None:
        shown = _File(file)
        shown.remove.clicked.connect(lambda: self._take_off(shown))
        self._files.append(shown)
        self._row.addWidget(shown, 0, Qt.AlignmentFlag.AlignLeft)
        self._changed()

    def _take_off(self, shown: _File) -> None:
        self._files.remove(shown)
        self._row.removeWidget(shown)
        shown.hide()
        shown.deleteLater()
        self.editor.setFocus()
        self._changed()

    def _clear_files(self) -> None:
        for shown in list(self._files):
            self._take_off(shown)

    def _clicked(self) -> None:
        if self._replying:
            self.stop_requested.emit()
        else:
            self.submit()

    def _changed(self) -> None:
        text = self.text()
        if not text:
            self.editor.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        can_send = (bool(text.strip()) or bool(self._files)) and not self._reason
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
