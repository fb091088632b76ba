"""Bytes against KL: every setting that a search tried, the front of those nothing beats, and the limit."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QCursor, QFontMetricsF, QMouseEvent, QPainter, QPen, QTransform
from PySide6.QtWidgets import QToolTip

from studio.ui.charts.figures import fine
from studio.ui.charts.ink import small
from studio.ui.charts.plot import PixelItem, QuietPlot
from studio.ui.charts.scale import decimal_ticks, limit, tick_words
from studio.ui.setting_words import setting_words
from studio.ui.token_fidelity import nats
from veloxquant_mlx.compared import front

if TYPE_CHECKING:
    from studio.core.what_if import Finding, Point

REACH = 14.0
"""Pixels around a point in which a click means it."""
LEAST = 1e-5
"""The least KL that is drawn, nats."""


def told(point: "Point") -> str:
    """A point in words."""
    how = "measured" if point.measured else "predicted"
    kl = "KL unknown" if point.kl is None else f"KL {nats(point.kl)} {how}"
    return f"{setting_words(point.config)}: {fine(point.bytes)} predicted, {kl}"


class Points(PixelItem):
    """Filled where the KL was measured, rings where it is predicted."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.points: Sequence[Point] = ()
        self.best: Point | None = None
        self.limit = 0.0
        self.chosen: Point | None = None
        self.hover: int | None = None

    def places(self) -> np.ndarray:
        """MB and log10 of the KL of every point, [points, 2]; NaN where no KL is known."""
        found = [
            (p.bytes / 1e6, math.nan if p.kl is None else math.log10(max(p.kl, LEAST))) for p in self.points
        ]
        return np.array(found, np.float64).reshape(-1, 2)

    def front(self) -> list[int]:
        """Indices of the points that no other beats in both, by rising bytes."""
        places = self.places()
        known = np.flatnonzero(~np.isnan(places[:, 1])).tolist()
        return front(known, lambda at: (places[at][0], places[at][1]))

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        ink = self._plot.ink
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.limit > 0:
            self._paint_limit(painter, to_pixels, frame)
        at = [to_pixels.map(QPointF(x, y)) for x, y in self.places()]
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(ink.muted, 1.25))
        painter.drawPolyline([at[n] for n in self.front()])
        accent = QColor(ink.tokens.accent)
        for n, point in enumerate(self.points):
            if point.kl is None:
                continue
            painter.setPen(QPen(accent if point.measured else ink.muted, 1.5))
            painter.setBrush(accent if point.measured else Qt.BrushStyle.NoBrush)
            painter.drawEllipse(at[n], 4.0, 4.0)
            rings = [9.0] if point is self.best else []
            rings += [6.5] if n == self.hover or point is self.chosen else []
            for ring in rings:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(ink.text, 1.5))
                painter.drawEllipse(at[n], ring, ring)

    def _paint_limit(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        ink, font = self._plot.ink, small(self._plot.font())
        y = round(to_pixels.map(QPointF(0, math.log10(max(self.limit, LEAST)))).y()) - 0.5
        if not frame.top() <= y <= frame.bottom():
            return
        painter.setPen(ink.reference)
        painter.drawLine(QLineF(frame.left(), y, frame.right(), y))
        words = f"limit {self.limit:g}"
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        painter.setPen(ink.muted)
        painter.drawText(QPointF(frame.right() - metrics.horizontalAdvance(words) - 2, y - 4), words)


class ParetoChart(QuietPlot):
    """Megabytes along the bottom, KL on a logarithmic scale upwards; smaller is better in both."""

    chosen = Signal(object)
    """The configuration of the point that was clicked."""
    pointed = Signal(str)
    """The point under the pointer in words, or ''."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Settings by bytes and KL")
        self.setMinimumHeight(240)
        self._points = Points(self)
        self.put(self._points)
        self._finding: Finding | None = None
        self.resized.connect(self._arrange)
        self.hovered.connect(self._hover)

    @property
    def drawn(self) -> np.ndarray:
        """MB and log10 of the KL of every point, [points, 2]."""
        return self._points.places()

    @property
    def front(self) -> list[int]:
        """Indices of the points on the front."""
        return self._points.front()

    def show_finding(self, finding: "Finding | None") -> None:
        """The points so far; None draws nothing."""
        self._finding = finding
        self._points.points = finding.points if finding else ()
        self._points.best = finding.best if finding else None
        self._points.limit = finding.limit if finding else 0.0
        self._points.hover = None
        self._arrange()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click near a point chooses it."""
        number = self._near(self.mapToScene(event.position().toPoint()))
        if event.button() == Qt.MouseButton.LeftButton and number is not None:
            self._points.chosen = self._points.points[number]
            self._points.update()
            self.chosen.emit(self._points.chosen.config)

    def _near(self, scene: QPointF) -> int | None:
        view = self.getViewBox()
        best, least = None, REACH
        for n, (x, y) in enumerate(self.drawn):
            if math.isnan(y):
                continue
            away = view.mapViewToScene(QPointF(x, y)) - scene
            distance = math.hypot(away.x(), away.y())
            if distance <= least:
                best, least = n, distance
        return best

    def _hover(self, at: QPointF | None) -> None:
        number = None if at is None else self._near(self.getViewBox().mapViewToScene(at))
        if number != self._points.hover:
            self._points.hover = number
            self._points.update()
        words = "" if number is None else told(self._points.points[number])
        self.pointed.emit(words)
        if words:
            QToolTip.showText(QCursor.pos(), words, self)
        else:
            QToolTip.hideText()

    def _arrange(self) -> None:
        places = self.drawn
        known = places[~np.isnan(places[:, 1])] if len(places) else places
        wide = limit(float(places[:, 0].max(initial=0.0)) * 1.04 or 1.0)
        lows = [float(known[:, 1].min(initial=-3.0)), math.log10(max(self._points.limit, LEAST))]
        low = math.floor(min(lows[0], lows[1] if self._points.limit else -3.0) - 0.1)
        high = math.ceil(float(known[:, 1].max(initial=-1.0)) + 0.1)
        width, height = self.inside()
        metrics = QFontMetricsF(small(self.font()))
        levels = decimal_ticks(wide, max(1, min(8, int(width / 70))))
        step = levels[1] if len(levels) > 1 else wide
        every = max(1, math.ceil((high - low + 1) * metrics.height() * 1.6 / height))
        self.set_ticks(
            # At the edge the words would be cut off.
            [(level, f"{tick_words(level, step)} MB") for level in levels if level < 0.97 * wide],
            [(float(power), f"{10.0**power:.{max(0, -power)}f}") for power in range(low, high + 1, every)],
        )
        self.show_range((0.0, wide), (float(low), float(high)))
        self._points.update()
