"""The items of the Fidelity view: KL of every token on a logarithmic scale, and one bar per slot."""

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPolygonF, QTransform

from studio.ui.charts.bars import between
from studio.ui.charts.ink import small
from studio.ui.charts.plot import PixelItem, QuietPlot
from studio.ui.theme import tint_colour
from studio.ui.token_fidelity import FAR, NEAR, SAME

if TYPE_CHECKING:
    from veloxquant_mlx.compared import SlotFidelity

FLOOR = 1e-5
"""The least KL that is drawn, nats: below it rounding speaks."""
CAPTION = "attention output error per slot, measured"
_WIDE = 32
"""Tokens the running mean goes over."""


class TokenStems(PixelItem):
    """One mark per token: a dot, a square or a triangle by how far down the uncompressed cache has it."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.take(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
        self.marks: tuple[int, ...] = ()
        """Where replies begin, tokens."""
        self.frontier: float | None = None
        self.hover: int | None = None

    def take(self, at: np.ndarray, kl: np.ndarray, levels: np.ndarray) -> None:
        """Positions in the conversation, rising, KL in nats and levels of the tokens compared."""
        self.at, self.kl, self.levels = at, kl, levels
        self.heights = np.log10(np.maximum(kl, FLOOR)) if len(kl) else kl
        self.update()

    def mean(self) -> np.ndarray:
        """Running mean of the KL over the last tokens compared, nats."""
        total = np.concatenate([[0.0], np.cumsum(self.kl)])
        first = np.maximum(0, np.arange(1, len(self.kl) + 1) - _WIDE)
        return (total[1:] - total[first]) / (np.arange(1, len(self.kl) + 1) - first)

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        ink = self._plot.ink
        painter.setPen(ink.grid)
        for power in range(round(math.log10(FLOOR)), 3):
            level = round(to_pixels.map(QPointF(0, power)).y()) - 0.5
            if frame.top() <= level <= frame.bottom():
                painter.drawLine(QLineF(frame.left(), level, frame.right(), level))
        if not len(self.at):
            return
        painter.save()
        painter.setClipRect(frame)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        x = (self.at + 0.5) * to_pixels.m11() + to_pixels.dx()
        y = self.heights * to_pixels.m22() + to_pixels.dy()
        near = max(1.5, min(3.0, to_pixels.m11() / 1.8))
        for how in (SAME, NEAR, FAR):
            seen = (x >= frame.left() - 4) & (x <= frame.right() + 4)
            chosen = np.nonzero(seen & (self.levels == how))[0]
            colour = QColor(ink.muted) if how == SAME else tint_colour(how, self._plot.scheme)
            if how == SAME:
                colour.setAlpha(130)
            self._paint_level(painter, how, x[chosen], y[chosen], colour, near)
        self._paint_mean(painter, x, to_pixels)
        painter.restore()
        self._paint_places(painter, to_pixels, frame)

    def _paint_level(
        self, painter: QPainter, level: int, x: np.ndarray, y: np.ndarray, colour: QColor, size: float
    ) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        for middle in map(QPointF, x.tolist(), y.tolist()):
            if level == SAME:
                painter.drawEllipse(middle, size, size)
            else:
                painter.drawPolygon(_shape(level, size + level, middle))

    def _paint_mean(self, painter: QPainter, x: np.ndarray, to_pixels: QTransform) -> None:
        y = np.log10(np.maximum(self.mean(), FLOOR)) * to_pixels.m22() + to_pixels.dy()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._plot.ink.text, 1.5))
        # Between replies lie prompts, which were not compared.
        cuts = [0, *(np.nonzero(np.diff(self.at) > 1)[0] + 1).tolist(), len(x)]
        for first, last in pairwise(cuts):
            painter.drawPolyline([QPointF(x[n], y[n]) for n in range(first, last)])

    def _paint_places(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        """The flush frontier, the beginnings of replies and the token under the pointer."""
        ink, font = self._plot.ink, small(self._plot.font())
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        places = [(float(mark), f"reply {n}", False) for n, mark in enumerate(self.marks, 1)]
        if self.frontier:
            places.append((self.frontier, f"frontier {self.frontier:,.0f}", True))
        for place, name, strong in places:
            x = round(place * to_pixels.m11() + to_pixels.dx()) + 0.5
            if not frame.left() <= x <= frame.right():
                continue
            painter.setPen(QPen(ink.text, 1) if strong else ink.mark)
            painter.drawLine(QLineF(x, frame.top(), x, frame.bottom()))
            wide = metrics.horizontalAdvance(name)
            left = x - wide - 5 if strong and x - wide - 5 >= frame.left() else x + 4
            top = frame.top() + (metrics.height() if strong else 0)
            if left + wide <= frame.right():
                painter.fillRect(QRectF(left - 1, top, wide + 2, metrics.height()), ink.halo)
                painter.setPen(ink.text if strong else ink.muted)
                painter.drawText(QPointF(left, top + metrics.ascent()), name)
        if self.hover is not None and self.hover < len(self.at):
            token = QPointF(self.at[self.hover] + 0.5, self.heights[self.hover])
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(ink.text, 1.25))
            painter.drawEllipse(to_pixels.map(token), 6, 6)


def _shape(level: int, size: float, middle: QPointF) -> QPolygonF:
    """A square on its corner for choices near the first, a triangle for those beyond."""
    corners = {NEAR: ((0, -1), (1, 0), (0, 1), (-1, 0)), FAR: ((0, -1), (1, 1), (-1, 1))}[level]
    return QPolygonF([middle + QPointF(size * x, size * y) for x, y in corners])


class SlotErrors(PixelItem):
    """Attention-output error of every slot, percent; hatched where a slot is not the method's."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.slots: tuple[SlotFidelity, ...] = ()
        self.selected: int | None = None
        self.hover: int | None = None

    def percents(self) -> np.ndarray:
        """Of every slot; NaN where nothing was measured."""
        return np.array(
            [np.nan if s.attention_error is None else 100 * s.attention_error for s in self.slots], np.float64
        )

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        ink = self._plot.ink
        self.paint_grid(painter, to_pixels, frame)
        font = small(self._plot.font())
        painter.setFont(font)
        painter.setPen(ink.muted)
        wide = QFontMetricsF(font).horizontalAdvance(CAPTION)
        above = frame.top() + QFontMetricsF(font).ascent()
        painter.drawText(QPointF(max(frame.left(), frame.right() - wide), above), CAPTION)
        edges = np.round(np.arange(len(self.slots) + 1) * to_pixels.m11() + to_pixels.dx())
        gap = between(to_pixels.m11())
        for slot, value in enumerate(self.percents().tolist()):
            wide = max(1.0, edges[slot + 1] - edges[slot] - gap)
            if math.isnan(value):
                painter.fillRect(QRectF(edges[slot], frame.bottom() - 5, wide, 5), ink.brushes["foreign"])
                continue
            top = round(value * to_pixels.m22() + to_pixels.dy())
            painter.fillRect(QRectF(edges[slot], top, wide, frame.bottom() - top), QColor(ink.tokens.accent))
            if slot in (self.selected, self.hover):
                painter.setPen(QPen(ink.text, 1.5 if slot == self.selected else 1))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(QRectF(edges[slot] - 1, frame.top() + 1, wide + 1, frame.height() - 2))
