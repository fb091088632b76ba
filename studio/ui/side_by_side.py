"""One prompt through two or three settings: answers side by side, differences marked, figures in a table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QHBoxLayout,
    QScrollArea,
    QTableWidget,
    QTableWidgetItem,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from studio.ui import parts, words
from studio.ui.differences import differences
from studio.ui.entries import CalmText
from studio.ui.spans import wide_places
from studio.ui.textview import TextView
from studio.ui.theme import tokens
from studio.ui.token_fidelity import nats, percent, quoted
from veloxquant_mlx.config import KVCacheConfig

if TYPE_CHECKING:
    from studio.core.side_by_side import Answer

COLUMNS = 3
NONE = "No third column"
HEADS = (
    "Column", "Setting", "KL per token, measured", "Same first choice", "MB counted", "MB measured",
    "16 bits, MB", "Tokens", "Prompt, tok/s", "Reply, tok/s",
)  # fmt: skip
_MARKED = (
    "In blue: words that the first column does not have at that place. Bytes are the cache's at the end of "
    "the answer; agreement and speeds are measured."
)


class AnswerColumn(QWidget):
    """A setting to choose, its answer, and the button that takes the setting over."""

    used = Signal(object)
    """The configuration."""

    def __init__(self, number: int, settings: Mapping[str, KVCacheConfig], *, optional: bool) -> None:
        super().__init__()
        self.answer: Answer | None = None
        self.box = QComboBox()
        self.box.setAccessibleName(f"Setting of column {number + 1}")
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.box.setMinimumContentsLength(12)
        if optional:
            self.box.addItem(NONE, None)
        for name, config in settings.items():
            self.box.addItem(name, config)
        self.view = TextView(f"Answer of column {number + 1}")
        self.status = parts.label("", "small", wrap=True)
        self.use = parts.button("Use this setting", "link", "Make it the setting of the cache panel")
        self.use.setEnabled(False)
        inner = QWidget()
        lines = QVBoxLayout(inner)
        parts.margins(lines, 0, 0, 8, 0, 0)
        lines.addWidget(self.view)
        lines.addStretch(1)
        area = QScrollArea()
        area.setWidget(inner)
        parts.clear_scroll(area)
        area.setMinimumHeight(round(160 * parts.text_scale()))
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 8)
        row.addWidget(self.status, 1)
        row.addWidget(self.use)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 6)
        column.addWidget(self.box)
        column.addWidget(area, 1)
        column.addLayout(row)
        self.use.clicked.connect(lambda: self.used.emit(self.answer.config if self.answer else None))

    @property
    def config(self) -> KVCacheConfig | None:
        """The setting that is chosen."""
        found = self.box.currentData()
        return found if isinstance(found, KVCacheConfig) else None

    def clear(self) -> None:
        """Before a run."""
        self.answer = None
        self.use.setEnabled(False)
        self.status.setText("" if self.config is None else "Waits for its turn")
        self.view.setPlainText("")
        self.view.setExtraSelections([])

    def show_answer(self, answer: "Answer") -> None:
        """As far as it is."""
        self.answer = answer
        text = words.clean(answer.text)
        if text != self.view.toPlainText():
            self.view.setPlainText(text)
        self.status.setText(answer.doing or _first_difference(answer))
        self.use.setEnabled(True)

    def mark(self, first: str) -> None:
        """Show what is not in the first column's answer."""
        text = self.view.toPlainText()
        wide = wide_places(text)
        self.view.setExtraSelections(
            [self._selection(wide[begin], wide[end]) for begin, end in differences(first, text)]
        )

    def marked(self) -> list[str]:
        """The words that are marked."""
        return [selection.cursor.selectedText() for selection in self.view.extraSelections()]

    def _selection(self, begin: int, end: int) -> QTextEdit.ExtraSelection:
        made = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.view.document())
        cursor.setPosition(begin)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        form = QTextCharFormat()
        form.setBackground(QColor(tokens().accent_soft))
        form.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        form.setUnderlineColor(QColor(tokens().accent))
        made.cursor, made.format = cursor, form
        return made


class SideBySideDialog(QDialog):
    """Signals carry what the person wants; the wiring hands answers in."""

    run_requested = Signal(str, object)
    """The prompt, and the configurations."""
    stop_requested = Signal()
    used = Signal(object)
    """The configuration to use."""

    def __init__(self, parent: QWidget, settings: Mapping[str, KVCacheConfig], prompt: str) -> None:
        super().__init__(parent)
        self.setWindowTitle("Side by side")
        self._running = False
        self.prompt = CalmText()
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setPlaceholderText("What every setting is asked")
        self.prompt.setPlainText(prompt)
        self.prompt.setFixedHeight(round(64 * parts.text_scale()))
        self.button = parts.button("Run", "primary")
        self.columns = [AnswerColumn(n, settings, optional=n == COLUMNS - 1) for n in range(COLUMNS)]
        for number, column in enumerate(self.columns[:2]):
            column.box.setCurrentIndex(min(number, column.box.count() - 1))
        self.note = parts.label("", "small", wrap=True)
        self.table = QTableWidget(0, len(HEADS))
        self.table.setHorizontalHeaderLabels(list(HEADS))
        self.table.setAccessibleName("Figures of every column")
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.table.verticalHeader().hide()
        self.table.setSortingEnabled(True)
        self.table.sortItems(0, Qt.SortOrder.AscendingOrder)
        self._compose()
        self.button.clicked.connect(self._clicked)
        for column in self.columns:
            column.used.connect(self.used)

    def _compose(self) -> None:
        box = parts.surface("raised")
        inner = QVBoxLayout(box)
        parts.margins(inner, 8, 6, 8, 6, 0)
        inner.addWidget(self.prompt)
        ask = QHBoxLayout()
        parts.margins(ask, 0, 0, 0, 0, 10)
        ask.addWidget(box, 1)
        ask.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 16)
        for column in self.columns:
            row.addWidget(column, 1)
        self.table.setFixedHeight(round(150 * min(1.4, parts.text_scale())))
        whole = QVBoxLayout(self)
        parts.margins(whole, 20, 16, 20, 14, 10)
        whole.addLayout(ask)
        whole.addLayout(row, 1)
        whole.addWidget(self.note)
        whole.addWidget(self.table)
        scale = min(1.4, parts.text_scale())
        self.resize(round(1000 * scale), round(640 * scale))

    @property
    def running(self) -> bool:
        """Whether a run was asked for and has not ended."""
        return self._running

    def show_answer(self, answer: "Answer | None") -> None:
        """What a column has now; None when the run has ended."""
        if answer is None:
            for column in self.columns:
                if column.status.text() == "Waits for its turn":
                    column.status.setText("Not run")
            self._run(False)
        elif answer.column < len(self._shown()):
            column = self._shown()[answer.column]
            column.show_answer(answer)
            if answer.column:
                column.mark(self._shown()[0].view.toPlainText())
            if answer.counted is not None:
                self._fill()

    def _shown(self) -> list[AnswerColumn]:
        return [column for column in self.columns if column.config is not None]

    def _clicked(self) -> None:
        if self._running:
            self.stop_requested.emit()
            return
        text = self.prompt.toPlainText().strip()
        if not text:
            self.note.setText("Write a prompt first.")
            return
        for column in self.columns:
            column.clear()
        self.table.setRowCount(0)
        self.note.setText(_MARKED)
        self._run(True)
        self.run_requested.emit(text, tuple(column.config for column in self._shown()))

    def _run(self, running: bool) -> None:
        self._running = running
        self.button.setText("Stop" if running else "Run")
        self.prompt.setEnabled(not running)
        for column in self.columns:
            column.box.setEnabled(not running)

    def _fill(self) -> None:
        """One row per column that has an end."""
        ended = [c for c in self._shown() if c.answer is not None and c.answer.counted is not None]
        self.table.setSortingEnabled(False)
        self.table.setRowCount(len(ended))
        for row, column in enumerate(ended):
            if column.answer is not None:
                for at, (value, text) in enumerate(_cells(column.answer, column.box.currentText())):
                    self.table.setItem(row, at, _Cell(value, text))
        self.table.setSortingEnabled(True)
        self.table.resizeColumnsToContents()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Nobody would see the answers."""
        if self._running:
            self.stop_requested.emit()
        super().closeEvent(event)


class _Cell(QTableWidgetItem):
    """Sorted by its value, unknown ones last; shown in words."""

    def __init__(self, value: float | str | None, text: str) -> None:
        super().__init__(text)
        self.value = value
        if not isinstance(value, str):
            self.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def __lt__(self, other: QTableWidgetItem) -> bool:
        if not isinstance(other, _Cell) or other.value is None or self.value is None:
            return self.value is not None
        return bool(self.value < other.value)  # type: ignore[operator]


def _cells(answer: "Answer", name: str) -> Sequence[tuple[float | str | None, str]]:
    found = answer.fidelity

    def mega(count: int | None) -> tuple[float | None, str]:
        return count, words.UNKNOWN if count is None else f"{count / 1e6:,.2f}"

    def speed(value: float | None) -> tuple[float | None, str]:
        return value, words.UNKNOWN if value is None else f"{value:,.1f}"

    return (
        (answer.column + 1, str(answer.column + 1)), (name, name),
        (None, "being compared") if found is None else (found.mean_kl, nats(found.mean_kl)),
        (None, "being compared") if found is None else (found.same_top1, percent(found.same_top1)),
        mega(answer.counted), mega(answer.resident), mega(answer.reference),
        (answer.tokens, f"{answer.tokens:,}"), speed(answer.prefill_speed), speed(answer.decode_speed),
    )  # fmt: skip


def _first_difference(answer: "Answer") -> str:
    found = answer.fidelity
    at = None if found is None else found.first_difference
    if found is None or at is None:
        return "The uncompressed cache agrees at every token, measured"
    piece = quoted(answer.pieces[at])
    return f"The uncompressed cache disagrees first at token {at + 1:,}, {piece}, measured"
