"""Which tokens a slot holds as what: runs along the tokens, and their painting for all slots at once."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QTransform

from studio.ui.charts.ink import small
from studio.ui.charts.plot import PixelItem, QuietPlot
from veloxquant_mlx.telemetry import CacheSnapshot, LayerStats

RUNS = ("sinks", "codes", "exact")
"""The kinds along a slot's tokens, in their order; a foreign slot is one run of its own kind."""
LEAST = 2.0
"""Pixels a run takes at least: four sink rows of a long conversation would be seen nowhere."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRuns:
    """Where the runs of every slot end, tokens: sinks run from 0, codes from there, exact rows to the end."""

    sinks: np.ndarray
    codes: np.ndarray
    exact: np.ndarray
    """[slots] each; all equal to ``tokens`` of nothing where a slot is foreign."""
    foreign: np.ndarray
    """[slots] bool."""
    tokens: int

    def bounds(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """First token and end of a kind's run in every slot; equal where there is none."""
        if kind == "foreign":
            zero = np.zeros(len(self.foreign))
            return zero, np.where(self.foreign, float(self.tokens), 0.0)
        ends = {"sinks": self.sinks, "codes": self.codes, "exact": self.exact}
        start = {"sinks": np.zeros(len(self.sinks)), "codes": self.sinks, "exact": self.codes}[kind]
        return start, ends[kind]

    def kind_at(self, slot: int, token: int) -> str | None:
        """The kind a slot holds a token as, or None beyond the last."""
        for kind in ("foreign", *RUNS):
            start, end = self.bounds(kind)
            if start[slot] <= token < end[slot]:
                return kind
        return None


def runs_of(snapshot: CacheSnapshot) -> TokenRuns:
    """The runs of every slot at a moment."""
    rows = [_ends(layer) for layer in snapshot.layers]
    ends = np.array(rows, np.float64).reshape(-1, 3)
    foreign = np.array([not layer.replaced for layer in snapshot.layers], bool)
    return TokenRuns(ends[:, 0], ends[:, 1], ends[:, 2], foreign, snapshot.tokens)


def _ends(layer: LayerStats) -> tuple[float, float, float]:
    if not layer.replaced:
        return 0.0, 0.0, 0.0
    # A cache without a frontier holds everything one way: as codes, or as it came.
    plain = float(layer.tokens if layer.counted.codes else 0)
    frontier = layer.gauges.get("frontier", plain)
    return min(layer.gauges.get("sinks", 0.0), frontier), frontier, float(layer.tokens)


class Rows(PixelItem):
    """Paints TokenRuns: a row per slot from top to bottom, tokens from left to right."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.runs: TokenRuns | None = None
        self.selected: int | None = None
        self.hover: tuple[int, int] | None = None
        """Slot and token."""

    def pixel_bounds(
        self, kind: str, to_pixels: QTransform, frame: QRectF
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Left and right edge of a kind's run in every slot, whole pixels inside the frame."""
        if self.runs is None:
            return None
        start, end = self.runs.bounds(kind)
        left, right = (np.round(edge * to_pixels.m11() + to_pixels.dx()) for edge in (start, end))
        right = np.where(end > start, np.maximum(right, left + LEAST), left)
        return np.clip(left, frame.left(), frame.right()), np.clip(right, frame.left(), frame.right())

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        runs, ink = self.runs, self._plot.ink
        if runs is None or not len(runs.sinks):
            return
        count = len(runs.sinks)
        edges = np.round(np.arange(count + 1) * to_pixels.m22() + to_pixels.dy())
        # A drawing saved as lines knows no clip.
        edges = np.clip(edges, frame.top(), frame.bottom())
        pitch = to_pixels.m22()
        gap = 0.0 if pitch < 3 else 1.0 if pitch < 12 else 2.0
        seen = np.diff(edges) > 0
        heights = np.where(seen, np.maximum(1.0, np.diff(edges) - gap), 0.0)
        painter.setPen(Qt.PenStyle.NoPen)
        # The sinks last: their least width may reach into the codes, which have plenty.
        for kind in ("foreign", "exact", "codes", "sinks"):
            bounds = self.pixel_bounds(kind, to_pixels, frame)
            if bounds is None:
                continue
            left, right = bounds
            shown = np.nonzero((right > left) & seen)[0].tolist()
            painter.setBrush(ink.brushes[kind])
            painter.drawRects([QRectF(left[i], edges[i], right[i] - left[i], heights[i]) for i in shown])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        self._paint_picked(painter, to_pixels, frame, edges, heights)
        self._paint_frontier(painter, to_pixels, frame, edges)

    def _paint_picked(
        self, painter: QPainter, to_pixels: QTransform, frame: QRectF, edges: np.ndarray, heights: np.ndarray
    ) -> None:
        """A ring around the selected slot, and a cross-hair where the pointer is."""
        ink = self._plot.ink
        if self.runs is None:
            return
        right = min(frame.right(), self.runs.tokens * to_pixels.m11() + to_pixels.dx() + 3)
        if self.hover is not None and self.hover[0] < len(heights):
            slot, token = self.hover
            veil = QColor(ink.text)
            veil.setAlpha(70)
            left = max(frame.left(), token * to_pixels.m11() + to_pixels.dx())
            wide = max(1.0, to_pixels.m11())
            painter.fillRect(QRectF(left, frame.top(), wide, frame.height()), veil)
            painter.fillRect(QRectF(frame.left(), edges[slot], right - frame.left(), heights[slot]), veil)
        if self.selected is not None and self.selected < len(heights) and heights[self.selected]:
            top, high = edges[self.selected] - 1, heights[self.selected] + 2
            ring = QRectF(frame.left() + 0.5, top, right - frame.left() - 1, high)
            painter.setPen(QPen(ink.text, 1.5))
            painter.drawRect(ring)

    def _paint_frontier(
        self, painter: QPainter, to_pixels: QTransform, frame: QRectF, edges: np.ndarray
    ) -> None:
        """A line where codes end, stepping where slots differ, named above the rows."""
        runs, ink = self.runs, self._plot.ink
        bounds = self.pixel_bounds("codes", to_pixels, frame)
        if runs is None or bounds is None:
            return
        ours = np.nonzero(~runs.foreign & (runs.codes > 0) & (runs.codes < runs.exact))[0].tolist()
        pen = QPen(ink.text, 2)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(pen)
        lines: list[QLineF] = []
        for slot in ours:
            at = bounds[1][slot]
            if not frame.left() < at < frame.right() or edges[slot] == edges[slot + 1]:
                continue
            # From the row of the slot before, across those that are not ours.
            top = lines[-1].y2() if lines else edges[slot]
            if lines and lines[-1].x2() != at:
                lines.append(QLineF(lines[-1].x2(), top, at, top))
            lines.append(QLineF(at, top, at, edges[slot + 1]))
        painter.drawLines(lines)
        if not lines:
            return
        lowest, highest = runs.codes[ours].min(), runs.codes[ours].max()
        words = f"frontier {lowest:,.0f}" + (f" to {highest:,.0f}" if highest > lowest else "")
        font: QFont = small(self._plot.font())
        metrics = QFontMetricsF(font)
        wide, x = metrics.horizontalAdvance(words), lines[0].x1()
        painter.setClipping(False)
        painter.setPen(QPen(ink.text, 1))
        painter.drawLine(QLineF(x, frame.top() - 4, x, frame.top()))
        painter.setFont(font)
        left = min(max(frame.left(), x - wide / 2), frame.right() - wide)
        painter.drawText(QPointF(left, frame.top() - 5 - metrics.descent()), words)
