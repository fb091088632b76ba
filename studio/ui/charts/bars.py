"""One stacked bar per cache slot against its 16-bit outline, painted by a single item."""

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTransform

from studio.ui.charts.ink import STACK
from studio.ui.charts.plot import PixelItem, QuietPlot

WIDEST = 72.0
"""Pixels a bar may be wide: a model of three slots is not a wall of colour."""
_OUTLINED = 7.0
"""Pixels a bar needs for a dashed outline of its own; below, the 16-bit heights join to one line."""


def between(pitch: float) -> float:
    """Pixels left free between bars that come every ``pitch`` pixels."""
    return 1.0 if pitch < 9 else 2.0 if pitch < 16 else 4.0 if pitch < 40 else 8.0


class Bars(PixelItem):
    """Paints byte counts per slot. ``kinds`` is [slots, kinds of STACK], the others [slots], bytes."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.take(np.zeros((0, len(STACK)), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
        self.selected: int | None = None
        self.hover: int | None = None

    def take(self, kinds: np.ndarray, resident: np.ndarray, reference: np.ndarray) -> None:
        """What to paint from now on."""
        self.kinds, self.resident, self.reference = kinds, resident, reference
        self.update()

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        ink = self._plot.ink
        self.paint_grid(painter, to_pixels, frame)
        count = len(self.kinds)
        if not count:
            return
        # Both edges of a bar are rounded, so that bars and gaps are whole pixels and the hatch is crisp.
        pitch = to_pixels.m11()
        gap = between(pitch)
        lefts = np.round(np.arange(count) * pitch + to_pixels.dx())
        rights = lefts + np.maximum(
            1.0, np.round(np.arange(1, count + 1) * pitch + to_pixels.dx()) - lefts - gap
        )
        # A drawing saved as lines knows no clip.
        lefts, rights = (np.clip(edge, frame.left(), frame.right()) for edge in (lefts, rights))
        widths = rights - lefts
        seen = widths > 0
        base, scale = to_pixels.dy(), to_pixels.m22() / 1e6
        tops = np.round(base + np.cumsum(self.kinds, axis=1) * scale)
        bottoms = np.concatenate([np.full((count, 1), round(base)), tops[:, :-1]], axis=1)
        painter.setPen(Qt.PenStyle.NoPen)
        for column, kind in enumerate(STACK):
            heights = bottoms[:, column] - tops[:, column]
            shown = np.nonzero((heights > 0) & seen)[0]
            if not len(shown):
                continue
            painter.setBrush(ink.brushes[kind])
            painter.drawRects(
                [QRectF(lefts[i], tops[i, column], widths[i], heights[i]) for i in shown.tolist()]
            )
        painter.setBrush(Qt.BrushStyle.NoBrush)
        tops = np.round(base + self.reference * scale)
        self._paint_reference(painter, lefts[seen], widths[seen], tops[seen], pitch - gap, round(base))
        painter.setPen(QPen(ink.text, 1))
        levels = np.round(base + self.resident * scale) - 0.5
        painter.drawLines(
            [QLineF(lefts[i], levels[i], rights[i], levels[i]) for i in np.flatnonzero(seen).tolist()]
        )
        self._paint_picked(painter, lefts, widths, frame)

    def _paint_reference(
        self,
        painter: QPainter,
        lefts: np.ndarray,
        widths: np.ndarray,
        tops: np.ndarray,
        widest: float,
        base: float,
    ) -> None:
        pen = QPen(self._plot.ink.colours["reference"], 1)
        pen.setDashPattern([3, 3])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(pen)
        if widest < _OUTLINED and len(lefts):
            rights = np.append(lefts[1:], lefts[-1] + widths[-1])
            corners = [QPointF(x, y - 0.5) for i, y in enumerate(tops) for x in (lefts[i], rights[i])]
            painter.drawPolyline(corners)
            return
        painter.drawLines(
            [QLineF(x, y - 0.5, x + w, y - 0.5) for x, w, y in zip(lefts, widths, tops, strict=True)]
        )
        faded = QColor(pen.color())
        faded.setAlpha(130)
        pen.setColor(faded)
        painter.setPen(pen)
        for x, w, y in zip(lefts, widths, tops, strict=True):
            painter.drawLine(QLineF(x + 0.5, y - 0.5, x + 0.5, base))
            painter.drawLine(QLineF(x + w - 0.5, y - 0.5, x + w - 0.5, base))

    def _paint_picked(self, painter: QPainter, lefts: np.ndarray, widths: np.ndarray, frame: QRectF) -> None:
        """A ring around the selected slot and a veil behind the one under the pointer."""
        ink = self._plot.ink
        for slot, strength in ((self.hover, 28), (self.selected, 0)):
            if slot is None or slot >= len(lefts) or not widths[slot]:
                continue
            ring = QRectF(lefts[slot] - 2.5, frame.top() + 1.5, widths[slot] + 4, frame.height() - 2)
            if strength:
                veil = QColor(ink.text)
                veil.setAlpha(strength)
                painter.fillRect(ring, veil)
            else:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing)
                painter.setPen(QPen(ink.text, 1.5))
                painter.drawRoundedRect(ring, 3, 3)
