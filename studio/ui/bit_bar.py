"""A list of whole numbers as a bar chart whose columns are pulled up and down: bits, band by band."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractSlider, QHBoxLayout, QSizePolicy, QWidget

from studio.ui import parts
from studio.ui.fields import Labelled
from studio.ui.theme import DARK, LIGHT, contrast, kind_colour, scheme_now, tokens

_DIGITS = range(Qt.Key.Key_0.value, Qt.Key.Key_9.value + 1)


class _Column(QAbstractSlider):
    """One number. Up and down change it, a digit sets it; the mouse belongs to the whole row."""

    moved_on = Signal(int)
    """Left (-1) or right (+1) was pressed."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self.setOrientation(Qt.Orientation.Vertical)
        self.setRange(low, high)
        self.setSingleStep(1)
        self.setPageStep(max(1, (high - low) // 4))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Neighbours with left and right, a value with its digit, the rest as every slider does."""
        key = event.key()
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.moved_on.emit(1 if key == Qt.Key.Key_Right else -1)
        elif key in _DIGITS and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            self.setValue(key - _DIGITS.start)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """The focus ring comes and goes."""
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.update()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The track, the column filled from its foot, the number on it, and the focus ring."""
        t, live = tokens(), self.isEnabled()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(self.rect()).adjusted(1.5, 1.5, -1.5, -1.5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(t.raised))
        painter.drawRoundedRect(frame, 4, 4)
        span = max(1, self.maximum() - self.minimum())
        share = (self.value() - self.minimum()) / span
        filled = QRectF(frame)
        filled.setTop(frame.bottom() - share * frame.height())
        fill = kind_colour("codes", scheme_now()) if live else QColor(t.line)
        if share:
            painter.setBrush(fill)
            painter.drawRoundedRect(filled, min(4.0, filled.height() / 2), min(4.0, filled.height() / 2))
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        line = painter.fontMetrics().height()
        # On the fill where it is high enough for the number, above it otherwise.
        inside = filled.height() > line + 4
        top = filled.top() + 2 if inside else filled.top() - line - 1
        # Of the two inks the one that can be read on the fill.
        ink = max(DARK.on_accent, LIGHT.on_accent, key=lambda colour: contrast(colour, fill.name()))
        painter.setPen(QColor((ink if inside else t.text) if live else t.faint))
        spot = QRectF(frame.left(), max(top, frame.top()), frame.width(), line)
        painter.drawText(spot, Qt.AlignmentFlag.AlignCenter, str(self.value()))
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(t.text), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 5, 5)
        painter.end()


class _Row(QWidget):
    """The columns side by side. A drag sets whichever column it is over."""

    edited = Signal()
    let_go = Signal()

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self._low, self._high = low, high
        self.columns: list[_Column] = []
        self.held = False
        self._quiet = False
        self._layout = QHBoxLayout(self)
        parts.margins(self._layout, 0, 0, 0, 0, 1)
        self.setFixedHeight(round(72 * parts.text_scale()))
        self.setCursor(Qt.CursorShape.SizeVerCursor)

    def sizeHint(self) -> QSize:
        """Any width."""
        return QSize(160, self.height())

    def show_values(self, values: Sequence[int], name: str, tip: str) -> None:
        """As many columns as values, without a signal."""
        self._quiet = True
        while len(self.columns) > len(values):
            gone = self.columns.pop()
            self._layout.removeWidget(gone)
            gone.deleteLater()
        while len(self.columns) < len(values):
            column = _Column(self._low, self._high)
            column.valueChanged.connect(self._changed)
            column.moved_on.connect(self._move_on)
            column.setAccessibleDescription(tip)
            self.columns.append(column)
            self._layout.addWidget(column)
        for index, (column, value) in enumerate(zip(self.columns, values, strict=True)):
            column.setAccessibleName(f"{name}, {index + 1} of {len(values)}")
            column.setValue(value)
        self._quiet = False

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the column below the mouse."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.held = True
            self._pull(event.position(), take_focus=True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pull the column below the mouse to its height."""
        if self.held:
            self._pull(event.position(), take_focus=False)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        if self.held and event.button() == Qt.MouseButton.LeftButton:
            self.held = False
            self.let_go.emit()

    def value_at(self, y: float) -> int:
        """The value whose column ends at a height of this widget."""
        span = self._high - self._low
        share = 1 - (y - 1.5) / max(1.0, self.height() - 3)
        return self._low + min(span, max(0, round(share * span)))

    def _pull(self, at: QPointF, *, take_focus: bool) -> None:
        if not self.columns:
            return
        index = int(at.x() * len(self.columns) / max(1, self.width()))
        column = self.columns[min(max(index, 0), len(self.columns) - 1)]
        if take_focus:
            column.setFocus(Qt.FocusReason.MouseFocusReason)
        column.setValue(self.value_at(at.y()))

    def _move_on(self, step: int) -> None:
        sender = next((c for c in self.columns if c.hasFocus()), None)
        if sender is not None:
            index = min(max(self.columns.index(sender) + step, 0), len(self.columns) - 1)
            self.columns[index].setFocus(Qt.FocusReason.OtherFocusReason)

    def _changed(self) -> None:
        if not self._quiet:
            self.edited.emit()


class BitBar(Labelled):
    """A list of whole numbers; its mean stands beside the words, where there is no room for the word."""

    def __init__(self, label: str, unit: str, low: int, high: int, tip: str) -> None:
        super().__init__(label, unit, tip)
        self._kind = unit
        self.unit.setToolTip("The mean of all columns")
        self.column.setSpacing(4)
        self.row = _Row(low, high)
        self.row.setAccessibleName(self.spoken)
        self.column.addWidget(self.row)
        self.row.edited.connect(self._edited)
        self.row.let_go.connect(self.released)

    def dragging(self) -> bool:
        """True while the mouse holds a column."""
        return self.row.held

    def value(self) -> tuple[int, ...]:
        """The numbers, left to right."""
        return tuple(column.value() for column in self.row.columns)

    def set_value(self, value: Sequence[int]) -> None:
        """Show numbers, in as many columns, without a signal."""
        self.row.show_values(value, self.spoken, self.tip)
        self._say()

    def _edited(self) -> None:
        self._say()
        self.changed.emit(self.value())

    def _say(self) -> None:
        values = self.value()
        if values:
            self.unit.setText(f"{sum(values) / len(values):.3g} {self._kind}".rstrip())
