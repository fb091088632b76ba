"""The one legend for all charts: the kinds with their textures, the measured line and the dashed one."""

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from studio.ui.charts.ink import ink, small
from studio.ui.charts.meanings import MEANINGS
from studio.ui.theme import Scheme
from veloxquant_mlx.telemetry import KIND_LABELS

_MARK, _NEAR, _FAR = 10.0, 6.0, 16.0
"""Pixels: side of a mark, from mark to words, from words to the next mark."""
_LINES = {"resident": "resident, measured", "reference": "16-bit, counted", "mark": "reply began"}


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    words: str
    at: QPointF
    """Left end and vertical middle."""
    wide: float


class Legend(QWidget):
    """Marks and words in as many lines as the width needs."""

    def __init__(self) -> None:
        super().__init__()
        self._scheme = Scheme.Dark
        self._foreign = self._marks = False
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.show_also(foreign=False, marks=False)

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self._scheme = scheme
        self.update()

    def show_also(self, *, foreign: bool, marks: bool) -> bool:
        """Name slots that are not ours, and marks where replies began, only where there are some.

        Returns whether that changed anything.
        """
        if self.accessibleName() and (foreign, marks) == (self._foreign, self._marks):
            return False
        self._foreign, self._marks = foreign, marks
        self.setAccessibleName("Legend: " + ", ".join(self.entries().values()))
        self.updateGeometry()
        self.update()
        return True

    def entries(self) -> dict[str, str]:
        """Key of each entry -> its words, in order."""
        kinds = {kind: words for kind, words in KIND_LABELS.items() if kind != "foreign" or self._foreign}
        return kinds | {key: words for key, words in _LINES.items() if key != "mark" or self._marks}

    def line_width(self) -> int:
        """Pixels the legend takes on one line."""
        return round(self._placed(10**6)[0])

    def sizeHint(self) -> QSize:
        return QSize(self.line_width(), self.heightForWidth(self.line_width()))

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.heightForWidth(max(120, self.width())))

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return round(self._placed(width)[1])

    def _placed(self, width: float) -> tuple[float, float, list[_Entry]]:
        """Width and height taken, and where every entry stands."""
        metrics = QFontMetricsF(small(self.font()))
        line = metrics.height() + 6
        x, row, widest, entries = 0.0, 0, 0.0, []
        for key, words in self.entries().items():
            wide = self._mark_width(key) + _NEAR + metrics.horizontalAdvance(words)
            if x and x + wide > width:
                x, row = 0.0, row + 1
            entries.append(_Entry(key, words, QPointF(x, (row + 0.5) * line), wide))
            widest = max(widest, x + wide)
            x += wide + _FAR
        return widest + 1, (row + 1) * line, entries

    @staticmethod
    def _mark_width(key: str) -> float:
        return 1.0 if key == "mark" else 16.0 if key in _LINES else _MARK

    def meaning_at(self, x: float, y: float) -> str:
        """What the entry at a place means, or nothing between entries."""
        half = (QFontMetricsF(small(self.font())).height() + 6) / 2
        for entry in self._placed(self.width())[2]:
            if 0 <= x - entry.at.x() < entry.wide and abs(y - self._above() - entry.at.y()) <= half:
                return f"{entry.words}: {MEANINGS[entry.key]}"
        return ""

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.meaning_at(event.x(), event.y()), self)
            return True
        return super().event(event)

    def _above(self) -> int:
        """Layouts may give more height than the lines take."""
        return max(0, self.height() - self.heightForWidth(self.width())) // 2

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.translate(0, self._above())
        self.paint(painter, self.width())
        painter.end()

    def paint(self, painter: QPainter, width: float) -> None:
        """Paint the entries in lines of a width."""
        shades = ink(self._scheme, self.devicePixelRatioF())
        font = small(self.font())
        ascent = QFontMetricsF(font).ascent() - QFontMetricsF(font).descent()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font)
        for entry in self._placed(width)[2]:
            x, y = entry.at.x(), round(entry.at.y())
            if entry.key == "mark":
                painter.setPen(QPen(shades.text, 1))
                painter.drawLine(QLineF(round(x) + 0.5, y - 3, round(x) + 0.5, y + 3))
            elif entry.key in _LINES:
                pen = QPen(shades.resident if entry.key == "resident" else shades.reference)
                painter.setPen(pen)
                painter.drawLine(QLineF(x, y + 0.5, x + 16, y + 0.5))
            else:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(shades.brushes[entry.key])
                painter.drawRoundedRect(QRectF(x, y - _MARK / 2, _MARK, _MARK), 2, 2)
            painter.setPen(shades.muted)
            painter.drawText(QPointF(x + self._mark_width(entry.key) + _NEAR, y + ascent / 2), entry.words)
