"""Number entries and sliders that let the wheel scroll the panel, and leave undo to it."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFocusEvent, QHideEvent, QKeyEvent, QKeySequence, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QDoubleSpinBox,
    QLineEdit,
    QPlainTextEdit,
    QSlider,
    QSpinBox,
)

if TYPE_CHECKING:
    _SpinBase = QAbstractSpinBox
else:
    _SpinBase = object


class CalmSlider(QSlider):
    """A slider that is moved by hand and keys alone."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past a slider must not change it."""
        event.ignore()


class _CalmEntry(_SpinBase):
    """What both number entries do differently from Qt's."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past an entry must not change it."""
        event.ignore()

    def event(self, event: QEvent) -> bool:
        """Give the words the whole width; Ctrl+Z takes back a setting, not a letter."""
        if is_undo(event):
            event.ignore()
            return False
        done = super().event(event)
        # A stylesheet makes Qt keep room for the buttons of a spin box that has none.
        if event.type() in (
            QEvent.Type.Resize,
            QEvent.Type.StyleChange,
            QEvent.Type.Show,
            QEvent.Type.Polish,
        ):
            self.lineEdit().setGeometry(self.rect().adjusted(1, 1, -1, -1))
        return done


class CalmSpin(_CalmEntry, QSpinBox):
    """A whole-number entry."""


class CalmDoubleSpin(_CalmEntry, QDoubleSpinBox):
    """A number entry."""


class CalmLine(QLineEdit):
    """A line of text."""

    def event(self, event: QEvent) -> bool:
        """Ctrl+Z takes back a setting, not a letter."""
        if is_undo(event):
            event.ignore()
            return False
        return super().event(event)


class CalmText(QPlainTextEdit):
    """Several lines of text. Escape is left to the window, Tab goes on to the next control."""

    left = Signal()
    """It was left, or hidden, after its text was edited."""

    def __init__(self) -> None:
        super().__init__()
        self.setTabChangesFocus(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """All keys but Escape."""
        if event.key() == Qt.Key.Key_Escape:
            event.ignore()
            return
        super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Done writing."""
        super().focusOutEvent(event)
        self._leave()

    def hideEvent(self, event: QHideEvent) -> None:
        """A window that closes takes no focus away first."""
        super().hideEvent(event)
        self._leave()

    def _leave(self) -> None:
        if self.document().isModified():
            self.document().setModified(False)
            self.left.emit()


def is_undo(event: QEvent) -> bool:
    """True where an entry asks to have undo or redo for itself."""
    if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
        return False
    return event.matches(QKeySequence.StandardKey.Undo) or event.matches(QKeySequence.StandardKey.Redo)


def number_entry(low: float, high: float, step: float, *, whole: bool) -> CalmSpin | CalmDoubleSpin:
    """An entry for numbers of a range, wide enough for the longest of them."""
    entry: CalmSpin | CalmDoubleSpin
    if whole:
        entry = CalmSpin()
        entry.setRange(int(low), int(high))
        entry.setSingleStep(max(1, int(step)))
        ends = (entry.textFromValue(int(low)), entry.textFromValue(int(high)))
    else:
        entry = CalmDoubleSpin()
        entry.setDecimals(max(2, _decimals(step)))
        entry.setRange(low, high)
        entry.setSingleStep(step)
        ends = (entry.textFromValue(low), entry.textFromValue(high))
    entry.setButtonSymbols(QAbstractSpinBox.ButtonSymbols.NoButtons)
    entry.setAlignment(Qt.AlignmentFlag.AlignRight)
    entry.setGroupSeparatorShown(True)
    entry.setProperty("figure", "true")
    entry.setKeyboardTracking(False)
    entry.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
    entry.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    entry.setMinimumWidth(entry.fontMetrics().horizontalAdvance("0" + max(ends, key=len)) + 10)
    return entry


def _decimals(step: float) -> int:
    """Decimals that a step needs: 0.005 needs three."""
    return len(f"{step:.8f}".rstrip("0").partition(".")[2])
