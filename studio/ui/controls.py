"""The few controls Qt has not got: a switch and a row of choices."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QButtonGroup, QCheckBox, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.theme import tokens


class Switch(QCheckBox):
    """A check box drawn as a switch: on is filled and to the right, not only another colour.

    ``changed`` carries what a person switched it to.
    """

    changed = Signal(bool)

    def __init__(self, words: str, tip: str = "", name: str = "") -> None:
        super().__init__(words)
        self.setToolTip(tip)
        self.setAccessibleName(name or words)
        self.setAccessibleDescription(tip)
        self.toggled.connect(self.changed)

    def value(self) -> bool:
        """Whether it is on."""
        return self.isChecked()

    def set_value(self, on: bool) -> None:
        """Switch it without a signal."""
        with QSignalBlocker(self):
            self.setChecked(on)
        self.update()

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
