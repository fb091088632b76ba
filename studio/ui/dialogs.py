"""Windows beside the main one: settings with a search, the keyboard sheet, the log."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QKeySequence, QTextCursor
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QPlainTextEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from studio.core.log import log_file
from studio.core.settings import Settings
from studio.ui import fonts, parts, words
from studio.ui.form import MethodForm
from studio.ui.search_line import SearchLine

LOG_TAIL = 200_000
"""Bytes of the log that its window shows."""
LOG_MS = 1000
IN_A_VIEW = (
    ("Zoom a view", "wheel, or + and −"),
    ("Zoom it upwards", f"{'Cmd' if parts.IS_MAC else 'Ctrl'} and wheel"),
    ("Move what is seen", "drag"),
    ("Show all of it again", "0"),
    ("Walk over slots and heads", "arrow keys"),
)
"""What is done in one of the views below the conversation, and how."""


def dialog_size(width: int, height: int) -> QSize:
    """A size for text at 100 %, grown with the text."""
    scale = min(1.4, parts.text_scale())
    return QSize(round(width * scale), round(height * scale))


class SettingsDialog(QDialog):
    """Every setting, found by the words of its label and its help; ``changed`` carries all of them."""

    changed = Signal(object)

    def __init__(self, parent: QWidget, settings: Settings, facts: Sequence[str]) -> None:
        """``facts`` are sentences below the settings: where things are kept, and how much."""
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.search = SearchLine("Search settings")
        self.form = MethodForm(Settings)
        self.form.set_config(settings)
        self.nothing = parts.label("No setting has these words.", "muted")
        self.nothing.hide()
        area = QScrollArea()
        area.setWidget(self.form)
        parts.clear_scroll(area)
        column = QVBoxLayout(self)
        parts.margins(column, 16, 14, 16, 14, 10)
        column.addWidget(self.search)
        column.addWidget(self.nothing)
        column.addWidget(area, 1)
        self.caches = CacheSpace()
        column.addWidget(self.caches)
        for fact in facts:
            line = parts.label(fact, "small", wrap=True)
            line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(line)
        column.addLayout(closing_row(self))
        self.resize(dialog_size(440, 460))
        self.search.textChanged.connect(self._find)
        self.form.changed.connect(self.changed)

    def _find(self, text: str) -> None:
        wanted = text.casefold().split()
        found = False
        for spec in Settings.fields():
            said = f"{spec.param.label} {spec.param.help}".casefold()
            matches = all(word in said for word in wanted)
            self.form.show_field(spec.name, matches)
            found = found or matches
        self.nothing.setVisible(not found)


class CacheSpace(QWidget):
    """What the saved caches of chats take on disk, and the button that removes them."""

    remove_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.words = parts.label("", "small", wrap=True)
        self.remove = parts.button(
            "Remove them", "link", "Remove all saved caches; the chats themselves stay"
        )
        row = QHBoxLayout(self)
        parts.margins(row, 0, 0, 0, 0, 8)
        row.addWidget(self.words, 1)
        row.addWidget(self.remove)
        self.remove.clicked.connect(self._removed)
        self.show_bytes(None)

    def show_bytes(self, taken: int | None) -> None:
        """Bytes of all files, measured; None where that is unknown."""
        if taken is None:
            said = "What saved caches take on disk is unknown as yet."
        elif taken == 0:
            said = "No chat has a saved cache."
        else:
            said = f"Saved caches take {words.megabytes(taken)} on disk, measured."
        self.words.setText(said)
        self.remove.setEnabled(bool(taken))

    def _removed(self) -> None:
        self.remove.setEnabled(False)
        self.words.setText("They are removed as soon as the engine is free.")
        self.remove_requested.emit()


class KeyboardSheet(QDialog):
    """Every command with its keys, and what hand and keys do in a view."""

    def __init__(self, parent: QWidget, actions: Sequence[QAction]) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard")
        more = (
            ("Send the message", "Ctrl+Return"), ("Rename the selected chat", "F2"),
            ("Delete the selected chat", "Del"), ("From control to control", "Tab"),
        )  # fmt: skip
        keys = [
            (action.text().rstrip("…"), action.shortcut())
            for action in actions
            if not action.shortcut().isEmpty()
        ]
        keys += [(text, QKeySequence(key)) for text, key in more]
        said = [(text, key.toString(QKeySequence.SequenceFormat.NativeText)) for text, key in keys]
        said += IN_A_VIEW
        grid = QGridLayout()
        grid.setHorizontalSpacing(32)
        grid.setVerticalSpacing(8)
        for row, (text, key) in enumerate(said):
            grid.addWidget(parts.label(text), row, 0)
            grid.addWidget(parts.label(key, "strong"), row, 1)
        column = QVBoxLayout(self)
        parts.margins(column, 20, 16, 20, 14, 14)
        column.addLayout(grid)
        column.addStretch(1)
        column.addLayout(closing_row(self))


class LogWindow(QDialog):
    """The end of a log file, following it while the window is open."""

    def __init__(self, parent: QWidget, file: Path | None = None) -> None:
        """``file`` None is the app's own log."""
        super().__init__(parent)
        self._file = file or log_file()
        self.setWindowTitle("Log" if file is None else "Log of the last crash")
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Log")
        self.text.setPlaceholderText("Nothing was noted yet: warnings and failures stand here.")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        font = self.text.font()
        font.setFamilies([fonts.fixed_family()])
        self.text.setFont(font)
        self._length = -1
        where = parts.label(str(self._file), "small", wrap=True)
        where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        copy = parts.button("Copy all", "", "Copy what is shown")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        folder = parts.button("Show folder", "", "Open the folder of the log files")
        folder.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._file.parent))))
        column = QVBoxLayout(self)
        parts.margins(column, 16, 14, 16, 14, 10)
        column.addWidget(self.text, 1)
        column.addWidget(where)
        column.addLayout(closing_row(self, copy, folder))
        self.resize(dialog_size(820, 480))
        self._timer = QTimer(self)
        self._timer.setInterval(LOG_MS)
        self._timer.timeout.connect(self.refresh)
        self._timer.start()
        self.refresh()

    def refresh(self) -> None:
        """Show what was written since."""
        try:
            length = self._file.stat().st_size
            if length == self._length:
                return
            with self._file.open("rb") as file:
                file.seek(max(0, length - LOG_TAIL))
                data = file.read(LOG_TAIL)
        except OSError as error:
            self.text.setPlainText(f"The log can't be read: {error.strerror}.")
            return
        self._length = length
        bar = self.text.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - 4
        self.text.setPlainText(words.clean(data.decode("utf-8", "replace")))
        if follows:
            self.text.moveCursor(QTextCursor.MoveOperation.End)


def closing_row(dialog: QDialog, *others: QWidget) -> QHBoxLayout:
    """The last row of a dialog: other buttons at the left, the one that closes it at the right."""
    row = QHBoxLayout()
    parts.margins(row, 0, 0, 0, 0, 8)
    for other in others:
        row.addWidget(other)
    row.addStretch(1)
    close = parts.button("Close", "primary")
    close.clicked.connect(dialog.accept)
    row.addWidget(close)
    return row
