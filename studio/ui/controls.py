"""The few controls Qt has not got: a switch, a row of choices, a slider with its number beside it."""

import math
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QEvent, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QSlider,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from studio.ui import parts
from studio.ui.theme import tokens


class Switch(QCheckBox):
    """A check box drawn as a switch: on is filled and to the right, not only another colour."""

    def sizeHint(self) -> QSize:
        """Room for the track, a gap and the words; at least 24 px high."""
        metrics = self.fontMetrics()
        return QSize(36 + metrics.horizontalAdvance(self.text()) + 4, max(24, metrics.height() + 6))

    def minimumSizeHint(self) -> QSize:
        """A switch never loses its words."""
        return self.sizeHint()

    def hitButton(self, pos: Any) -> bool:
        """The whole control is the target."""
        return self.rect().contains(pos)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Track, knob, words and the focus ring."""
        t = tokens()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track = QRectF(1.5, self.height() / 2 - 8, 27, 16)
        on, live = self.isChecked(), self.isEnabled()
        fill = t.accent if on and live else t.raised
        painter.setPen(QPen(QColor(t.accent if on and live else t.faint if live else t.line), 1))
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(track, 8, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(t.on_accent if on and live else t.muted if live else t.faint))
        left = track.right() - 14 if on else track.left() + 2
        painter.drawEllipse(QRectF(left, track.top() + 2, 12, 12))
        if self.hasFocus():
            painter.setPen(QPen(QColor(t.text), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(track.adjusted(-0.5, -1, 0.5, 1), 9, 9)
        painter.setPen(QColor(t.text if live else t.faint))
        words = self.rect().adjusted(36, 0, 0, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())
        painter.end()


class Segments(QWidget):
    """A few choices side by side; exactly one is on. Left and right move between them."""

    chosen = Signal(object)

    def __init__(self, choices: Sequence[Any], name: str, tip: str) -> None:
        super().__init__()
        self._choices = tuple(choices)
        self._group = QButtonGroup(self)
        frame = parts.surface("raised")
        inner = QHBoxLayout(frame)
        parts.margins(inner, 2, 2, 2, 2, 2)
        for index, choice in enumerate(self._choices):
            item = parts.button(f"{choice}", "segment", tip, f"{name} {choice}")
            item.setCheckable(True)
            item.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            self._group.addButton(item, index)
            inner.addWidget(item)
        outer = QVBoxLayout(self)
        parts.margins(outer, 0, 0, 0, 0, 0)
        outer.addWidget(frame)
        self.setAccessibleName(name)
        self._group.idClicked.connect(lambda index: self.chosen.emit(self._choices[index]))
        self._group.idToggled.connect(self._focus_follows)

    def _focus_follows(self, index: int, on: bool) -> None:
        """Tab stops once, on the chosen item."""
        policy = Qt.FocusPolicy.StrongFocus if on else Qt.FocusPolicy.ClickFocus
        self._group.button(index).setFocusPolicy(policy)

    def value(self) -> Any:
        """The choice that is on, or None."""
        index = self._group.checkedId()
        return self._choices[index] if index >= 0 else None

    def set_value(self, value: Any) -> None:
        """Switch a choice on without a signal."""
        if value in self._choices:
            self._group.button(self._choices.index(value)).setChecked(True)

    def keyPressEvent(self, event: Any) -> None:
        """Left and right choose the neighbour."""
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(event.key())
        index = self._group.checkedId() + (step or 0)
        if step is None or not 0 <= index < len(self._choices):
            super().keyPressEvent(event)
            return
        self._group.button(index).setFocus()
        self._group.button(index).click()


class _CalmSlider(QSlider):
    """A slider that lets the wheel scroll the panel."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past a slider must not change it."""
        event.ignore()


class _CalmSpin(QSpinBox):
    """A whole-number entry that lets the wheel scroll the panel."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past an entry must not change it."""
        event.ignore()

    def event(self, event: QEvent) -> bool:
        """Give the words the whole width."""
        done = super().event(event)
        _widen(self, self.lineEdit(), event)
        return done


class _CalmDoubleSpin(QDoubleSpinBox):
    """A number entry that lets the wheel scroll the panel."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past an entry must not change it."""
        event.ignore()

    def event(self, event: QEvent) -> bool:
        """Give the words the whole width."""
        done = super().event(event)
        _widen(self, self.lineEdit(), event)
        return done


def _widen(box: QWidget, line: QLineEdit, event: QEvent) -> None:
    # A stylesheet makes Qt keep room for the buttons of a spin box that has none.
    if event.type() in (QEvent.Type.Resize, QEvent.Type.StyleChange, QEvent.Type.Show, QEvent.Type.Polish):
        line.setGeometry(box.rect().adjusted(1, 1, -1, -1))


class ValueSlider(QWidget):
    """A number: words and unit above, the entry at the right, the slider below."""

    changed = Signal(object)

    def __init__(
        self, label: str, unit: str, low: float, high: float, step: float, *, whole: bool, tip: str
    ) -> None:
        super().__init__()
        self._low, self._step, self._whole = low, step, whole
        self.words = parts.Elided(label)
        self.unit = parts.label(unit, "muted")
        entry: QSpinBox | QDoubleSpinBox = _CalmSpin() if whole else _CalmDoubleSpin()
        if isinstance(entry, QSpinBox):
            entry.setRange(int(low), int(high))
            entry.setSingleStep(max(1, int(step)))
        elif isinstance(entry, QDoubleSpinBox):
            entry.setDecimals(max(2, math.ceil(-math.log10(step))))
            entry.setRange(low, high)
            entry.setSingleStep(step)
        entry.setButtonSymbols(QSpinBox.ButtonSymbols.NoButtons)
        entry.setAlignment(Qt.AlignmentFlag.AlignRight)
        entry.setGroupSeparatorShown(True)
        entry.setProperty("figure", "true")
        entry.setKeyboardTracking(False)
        entry.setCorrectionMode(QSpinBox.CorrectionMode.CorrectToNearestValue)
        entry.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        longest = max((_shown(entry, low), _shown(entry, high)), key=len)
        entry.setMinimumWidth(entry.fontMetrics().horizontalAdvance(f"0{longest}") + 10)
        self.entry = entry
        slider = _CalmSlider(Qt.Orientation.Horizontal)
        steps = max(1, round((high - low) / step))
        slider.setRange(0, steps)
        slider.setSingleStep(1)
        slider.setPageStep(max(1, steps // 8))
        slider.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.slider = slider
        spoken = f"{label}, {unit}" if unit else label
        for control in (entry, slider):
            control.setAccessibleName(spoken)
            control.setAccessibleDescription(tip)
        self.setToolTip(tip)
        self.words.setBuddy(entry)
        top = QHBoxLayout()
        parts.margins(top, 0, 0, 0, 0, 4)
        top.addWidget(self.words, 1)
        top.addWidget(entry)
        top.addWidget(self.unit)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 0)
        column.addLayout(top)
        column.addWidget(slider)
        slider.valueChanged.connect(self._slid)
        entry.valueChanged.connect(self._entered)

    def value(self) -> float | int:
        """The number shown."""
        return self.entry.value()

    def set_value(self, value: float) -> None:
        """Show a number without a signal."""
        with QSignalBlocker(self.entry), QSignalBlocker(self.slider):
            self._show(value)
            self.slider.setValue(round((value - self._low) / self._step))

    def _show(self, value: float) -> None:
        if isinstance(self.entry, QSpinBox):
            self.entry.setValue(int(value))
        else:
            self.entry.setValue(float(value))

    def _slid(self, position: int) -> None:
        value = self._low + position * self._step
        with QSignalBlocker(self.entry):
            self._show(round(value) if self._whole else value)
        self.changed.emit(self.value())

    def _entered(self, value: float) -> None:
        with QSignalBlocker(self.slider):
            self.slider.setValue(round((value - self._low) / self._step))
        self.changed.emit(value)


def _shown(entry: QSpinBox | QDoubleSpinBox, value: float) -> str:
    if isinstance(entry, QSpinBox):
        return entry.textFromValue(int(value))
    return entry.textFromValue(float(value))


def caption(text: str) -> QLabel:
    """A heading above a group of controls."""
    return parts.label(text, "heading", wrap=True)
