"""One declared field as a control with its words: a number, a choice, a line; or left automatic."""

import math
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSpinBox, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.controls import Segments, Switch
from studio.ui.entries import CalmLine, CalmSlider, CalmText, number_entry

_MANY = 5
"""More choices than this become a list to drop down."""


class Labelled(QWidget):
    """Words above at the left, the unit at their right, the control below.

    ``changed`` carries every value it comes to stand for, ``released`` tells the end of a drag.
    """

    changed = Signal(object)
    released = Signal()

    def __init__(self, label: str, unit: str, tip: str) -> None:
        super().__init__()
        self.tip = tip
        self.spoken = f"{label}, {unit}" if unit else label
        self.words, self.unit = parts.Elided(label), parts.label(unit, "muted")
        self.setToolTip(tip)
        self.top = QHBoxLayout()
        parts.margins(self.top, 0, 0, 0, 0, 4)
        self.top.addWidget(self.words, 1)
        self.top.addWidget(self.unit)
        self.column = QVBoxLayout(self)
        parts.margins(self.column, 0, 0, 0, 0, 0)
        self.column.addLayout(self.top)

    def name(self, control: QWidget) -> None:
        """Give a part of this control the name and the words that a screen reader says."""
        control.setAccessibleName(self.spoken)
        control.setAccessibleDescription(self.tip)

    def dragging(self) -> bool:
        """True while the mouse holds it."""
        return False

    def value(self) -> Any:
        """The value shown."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Show a value without a signal."""
        raise NotImplementedError

    def add_corner(self, widget: QWidget) -> None:
        """Put something between the words and the value."""
        self.top.insertWidget(1, widget)

    def set_open(self, is_open: bool) -> None:
        """Show the value at all; the words stay."""
        for index in range(1, self.column.count()):
            item = self.column.itemAt(index)
            if item is not None and (widget := item.widget()) is not None:
                widget.setVisible(is_open)
        self.unit.setVisible(is_open and bool(self.unit.text()))


class ValueSlider(Labelled):
    """A number: words and unit above, the entry at the right, the slider below."""

    def __init__(
        self, label: str, unit: str, low: float, high: float, step: float, *, whole: bool, tip: str
    ) -> None:
        super().__init__(label, unit, tip)
        self._low, self._step, self._whole = low, step, whole
        self.entry = number_entry(low, high, step, whole=whole)
        self.slider = slider = CalmSlider(Qt.Orientation.Horizontal)
        steps = max(1, round((high - low) / step))
        slider.setRange(0, steps)
        slider.setSingleStep(1)
        slider.setPageStep(max(1, steps // 8))
        slider.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        for control in (self.entry, slider):
            self.name(control)
        self.words.setBuddy(self.entry)
        self.top.insertWidget(1, self.entry)
        self.column.addWidget(slider)
        slider.valueChanged.connect(self._slid)
        slider.sliderReleased.connect(self.released)
        self.entry.valueChanged.connect(self._entered)

    def dragging(self) -> bool:
        """True while the mouse holds the handle."""
        return self.slider.isSliderDown()

    def value(self) -> float | int:
        """The number shown."""
        return self.entry.value()

    def set_value(self, value: float) -> None:
        """Show a number without a signal."""
        with QSignalBlocker(self.entry), QSignalBlocker(self.slider):
            self._show(value)
            self.slider.setValue(round((value - self._low) / self._step))

    def set_open(self, is_open: bool) -> None:
        """The entry stands above and goes with the slider."""
        super().set_open(is_open)
        self.entry.setVisible(is_open)

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


class Choice(Labelled):
    """A few choices side by side, or many in a list."""

    def __init__(self, label: str, unit: str, choices: tuple[Any, ...], tip: str) -> None:
        super().__init__(label, unit, tip)
        self.column.setSpacing(4)
        self._choices = choices
        self._control: Segments | QComboBox
        if len(choices) <= _MANY:
            self._control = Segments(choices, self.spoken, tip)
            self._control.chosen.connect(self.changed)
        else:
            self._control = QComboBox()
            self.name(self._control)
            for choice in choices:
                self._control.addItem(str(choice), choice)
            self._control.currentIndexChanged.connect(lambda _: self.changed.emit(self.value()))
        self.column.addWidget(self._control)

    def value(self) -> Any:
        """The choice that is on."""
        control = self._control
        return control.value() if isinstance(control, Segments) else control.currentData()

    def set_value(self, value: Any) -> None:
        """Switch a choice on without a signal."""
        if isinstance(self._control, Segments):
            self._control.set_value(value)
        else:
            with QSignalBlocker(self._control):
                self._control.setCurrentIndex(self._choices.index(value))


class TextLine(Labelled):
    """A line of text, for words, lists of any length and numbers without a range."""

    def __init__(self, label: str, unit: str, read: Callable[[str], Any], tip: str) -> None:
        super().__init__(label, unit, tip)
        self.column.setSpacing(2)
        self._read = read
        self.line = CalmLine()
        self.name(self.line)
        self.column.addWidget(self.line)
        self.line.editingFinished.connect(lambda: self.changed.emit(self.value()))

    def value(self) -> Any:
        """What is written, as the type it should be, or the text itself where it is nonsense."""
        text = self.line.text().strip()
        try:
            return self._read(text)
        except ValueError:
            # The method itself says what it wants: hand it what was written.
            return text

    def set_value(self, value: Any) -> None:
        """Write a value without a signal."""
        self.line.setText(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


class TextBlock(Labelled):
    """Several lines of text; ``changed`` when they are left."""

    def __init__(self, label: str, unit: str, lines: int, tip: str) -> None:
        super().__init__(label, unit, tip)
        self.column.setSpacing(2)
        self.text = CalmText()
        self.name(self.text)
        frame = parts.surface("raised")
        inner = QVBoxLayout(frame)
        parts.margins(inner, 4, 2, 4, 2, 0)
        inner.addWidget(self.text)
        # A text edit adds a margin of 4 pixels above and below its lines.
        self.text.setFixedHeight(lines * self.text.fontMetrics().lineSpacing() + 8)
        self.column.addWidget(frame)
        self.text.left.connect(lambda: self.changed.emit(self.value()))

    def value(self) -> str:
        """What is written."""
        return self.text.toPlainText()

    def set_value(self, value: str) -> None:
        """Write a text without a signal."""
        if value != self.value():
            self.text.setPlainText(value)


class OrAutomatic(QWidget):
    """A control with a switch that leaves its value to the method; the value is kept for the way back."""

    changed = Signal(object)
    released = Signal()

    def __init__(self, inner: Labelled, stand_in: str | None, words: str) -> None:
        """``stand_in`` is what the configuration says instead of a value, ``words`` what the switch does."""
        super().__init__()
        self.inner = inner
        self._stand_in = stand_in
        self.switch = Switch(words, inner.tip, f"{inner.spoken}: {words}")
        self.setToolTip(inner.tip)
        inner.add_corner(self.switch)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 0)
        column.addWidget(inner)
        self.switch.changed.connect(self._switched)
        inner.changed.connect(self.changed)
        inner.released.connect(self.released)

    def dragging(self) -> bool:
        """True while the mouse holds it."""
        return self.inner.dragging()

    def value(self) -> Any:
        """The value shown, or what stands for leaving it open."""
        return self._stand_in if self.switch.isChecked() else self.inner.value()

    def set_value(self, value: Any) -> None:
        """Show a value, or that it is left open, without a signal."""
        is_open = value != self._stand_in
        self.switch.set_value(not is_open)
        self.inner.set_open(is_open)
        if is_open:
            self.inner.set_value(value)

    def _switched(self, _automatic: bool) -> None:
        self.inner.set_open(not self.switch.isChecked())
        self.changed.emit(self.value())


def somewhere(low: float, high: float, step: float) -> float:
    """A value to begin with in a range: its middle, by ratio where it spans more than a power of ten."""
    middle = math.sqrt(low * high) if low > 0 and high / low > 10 else (low + high) / 2
    return min(high, low + round((middle - low) / step) * step)
