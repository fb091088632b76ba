"""Painting of Memory over tokens: stacked areas, the lines across them, and what is marked on them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyqtgraph.functions import arrayToQPath, arrayToQPolygonF
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen, QTransform

from studio.ui.charts.figures import fine
from studio.ui.charts.ink import STACK, small
from studio.ui.charts.plot import PixelItem, QuietPlot

_Map = Callable[[np.ndarray], np.ndarray]
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, slots=True, eq=False)
class MemoryDrawing:
    """What the view shows: the rows of the history picked for drawing, in bytes."""

    tokens: np.ndarray
    kinds: dict[str, np.ndarray]
    resident: np.ndarray
    reference: np.ndarray


@dataclass(frozen=True, slots=True)
class Tip:
    """The moment shown: where the lines carry their figures."""

    tokens: float
    reference: int
    resident: int
    frontier: float | None
    """Tokens behind the flush frontier."""
    live: bool

    @property
    def words(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The labels of the 16-bit line and of the measured line: the strong part and the rest."""
        return (
            (f"16-bit, {fine(self.reference)}", " counted"),
            (fine(self.resident), " resident, measured"),
        )


class Areas(PixelItem):
    """Paints a MemoryDrawing."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.drawing: MemoryDrawing | None = None
        self.tops: dict[str, np.ndarray] = {}
        self.tip: Tip | None = None
        self.marks: tuple[int, ...] = ()
        self.ghost: np.ndarray | None = None
        """[points, 2]: tokens and predicted bytes."""
        self.hover: float | None = None

    def take(self, drawing: MemoryDrawing | None) -> None:
        """Take over a drawing; the sums of the stack are made here, once."""
        self.drawing = drawing
        self.tops = {}
        if drawing is not None:
            top = np.zeros(len(drawing.tokens))
            for kind in STACK:
                if drawing.kinds[kind].any():
                    top = top + drawing.kinds[kind]
                    self.tops[kind] = top
        self.update()

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        ink, drawing = self._plot.ink, self.drawing
        painter.setClipRect(frame)
        self.paint_grid(painter, to_pixels, frame)
        base = to_pixels.dy()

        def across(tokens: np.ndarray) -> np.ndarray:
            return tokens * to_pixels.m11() + to_pixels.dx()

        def height(values: np.ndarray) -> np.ndarray:
            return values * (to_pixels.m22() / 1e6) + base

        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if drawing is not None and len(drawing.tokens):
            x = across(drawing.tokens)
            painter.setPen(Qt.PenStyle.NoPen)
            # Each area reaches down to the axis and is overpainted by the next: edges without seams.
            for kind in reversed(self.tops):
                outline = (
                    np.concatenate([[x[0]], x, [x[-1]]]),
                    np.concatenate([[base], np.maximum(height(self.tops[kind]), frame.top()), [base]]),
                )
                painter.setBrush(ink.brushes[kind])
                painter.drawPolygon(arrayToQPolygonF(*outline))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            self._paint_marks(painter, to_pixels, frame)
            painter.setPen(ink.resident)
            painter.drawPath(_line(x, height(drawing.resident), frame.top()))
            painter.setPen(ink.reference)
            painter.drawPath(_line(*_sparse(x, height(drawing.reference)), frame.top()))
        if self.ghost is not None:
            path = _line(across(self.ghost[:, 0]), height(self.ghost[:, 1]), frame.top())
            # On a bed of the background: codes have the colour of the accent where it is dark.
            painter.strokePath(path, QPen(ink.halo, 5))
            painter.setPen(ink.ghost)
            painter.drawPath(path)
        if self.tip is not None:
            self._paint_tip(painter, frame, across, height)
        if self.hover is not None:
            at = across(np.array([self.hover]))[0]
            painter.setPen(QPen(ink.text, 1))
            painter.drawLine(QLineF(at, frame.top(), at, frame.bottom()))

    def _paint_marks(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        """A hairline where a reply began, with its number where there is room."""
        ink = self._plot.ink
        font = small(self._plot.font())
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        free = frame.left() - 1
        for number, mark in enumerate(self.marks, 1):
            at = round(to_pixels.map(QPointF(mark, 0)).x()) + 0.5
            if not frame.left() <= at <= frame.right():
                continue
            painter.setPen(ink.mark)
            painter.drawLine(QLineF(at, frame.top(), at, frame.bottom()))
            painter.setPen(QPen(ink.text, 1))
            painter.drawLine(QLineF(at, frame.bottom() - 5, at, frame.bottom()))
            words = f"reply {number}"
            wide = metrics.horizontalAdvance(words)
            if at + 4 >= free and at + 4 + wide <= frame.right():
                painter.setPen(ink.muted)
                painter.drawText(QPointF(at + 4, frame.top() + metrics.ascent()), words)
                free = at + wide + 12

    def _paint_tip(self, painter: QPainter, frame: QRectF, across: _Map, height: _Map) -> None:
        """The moment: a line where it is held, the frontier's flag, and both lines' figures."""
        ink, tip = self._plot.ink, self.tip
        if tip is None:
            return
        x = float(across(np.array([tip.tokens]))[0])
        ends = height(np.array([tip.reference, tip.resident]))
        reference, resident = np.maximum(ends, frame.top()).tolist()
        if not frame.left() - 0.5 <= x <= frame.right() + 0.5:
            return
        if not tip.live:
            veil = QColor(ink.halo)
            veil.setAlpha(150)
            painter.fillRect(QRectF(x, frame.top(), frame.right() - x, frame.height()), veil)
            painter.setPen(QPen(QColor(ink.tokens.accent), 1.5))
            painter.drawLine(QLineF(x, frame.top(), x, frame.bottom()))
        if tip.frontier:
            at = float(across(np.array([tip.frontier]))[0])
            words = f"frontier {tip.frontier:,.0f}"
            self._paint_frontier(painter, frame, at, resident, words)
        ghost = None
        if self.ghost is not None and tip.live and self.ghost[-1, 0] == tip.tokens:
            ghost = max(frame.top(), float(height(self.ghost[-1:, 1])[0]))
        self._paint_figures(painter, frame, x, reference, resident, ghost)

    def _paint_frontier(self, painter: QPainter, frame: QRectF, x: float, top: float, words: str) -> None:
        """A flag on the stack: behind it only codes, before it rows still exact."""
        if not frame.left() <= x <= frame.right():
            return
        ink = self._plot.ink
        font = small(self._plot.font())
        metrics = QFontMetricsF(font)
        top = max(frame.top() + metrics.height(), top - 22)
        x = round(x) + 0.5
        painter.setPen(QPen(ink.text, 1))
        painter.drawLine(QLineF(x, top, x, frame.bottom()))
        wide = metrics.horizontalAdvance(words)
        left = x - wide - 5 if x - wide - 5 >= frame.left() else x + 5
        painter.fillRect(QRectF(left - 1, top - 1, wide + 2, metrics.height()), ink.halo)
        painter.setFont(font)
        painter.setPen(ink.text)
        painter.drawText(QPointF(left, top - 1 + metrics.ascent()), words)

    def _paint_figures(
        self,
        painter: QPainter,
        frame: QRectF,
        x: float,
        reference: float,
        resident: float,
        ghost: float | None,
    ) -> None:
        """The values of the lines, written beside their dots and kept apart."""
        ink, tip = self._plot.ink, self.tip
        if tip is None:
            return
        plain = small(self._plot.font())
        bold = QFont(plain)
        bold.setWeight(QFont.Weight.DemiBold)
        line = QFontMetricsF(bold).height()
        labels = [
            (reference, ink.colours["reference"], ink.muted, tip.words[0]),
            (resident, ink.text, ink.text, tip.words[1]),
        ]
        if ghost is not None and self.ghost is not None:
            accent = QColor(ink.tokens.accent)
            labels.append((ghost, accent, accent, (fine(int(self.ghost[-1, 1])), " predicted")))
        painter.setPen(Qt.PenStyle.NoPen)
        for dot, colour, _, _ in labels:
            painter.setBrush(colour)
            painter.drawEllipse(QPointF(x, dot), 2.5, 2.5)
        low, high = frame.top() + line / 2, frame.bottom() - line / 2
        ends = kept_apart([label[0] for label in labels], line, low, high)
        for y, (_, _, colour, (figure, rest)) in zip(ends, labels, strict=True):
            wide = QFontMetricsF(bold).horizontalAdvance(figure)
            whole = wide + QFontMetricsF(plain).horizontalAdvance(rest)
            left = min(x + 8, frame.right() - whole)
            back = QRectF(left - 2, y - line / 2, whole + 4, line)
            if left < x + 8 or not tip.live:
                painter.fillRect(back, ink.halo)
            painter.setFont(bold)
            painter.setPen(colour)
            painter.drawText(back.adjusted(2, 0, 0, 0), _LEFT, figure)
            painter.setFont(plain)
            painter.setPen(ink.muted)
            painter.drawText(back.adjusted(2 + wide, 0, 0, 0), _LEFT, rest)


def kept_apart(places: list[float], least: float, low: float, high: float) -> list[float]:
    """The places moved as little as their order allows, ``least`` apart, between ``low`` and ``high``."""
    order = sorted(range(len(places)), key=places.__getitem__)
    kept = [min(max(places[index], low), high) for index in order]
    for _ in kept:
        for above in range(len(kept) - 1):
            short = least - (kept[above + 1] - kept[above])
            if short > 0:
                kept[above] -= short / 2
                kept[above + 1] += short / 2
        kept = [min(max(y, low + i * least), high - (len(kept) - 1 - i) * least) for i, y in enumerate(kept)]
    return [kept[order.index(index)] for index in range(len(places))]


def cut(x: np.ndarray, y: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    """A line without what lies above a height: NaN there, and a point where it crosses."""
    # A drawing saved as lines knows no clip: nothing may reach beyond the frame.
    above = y < top
    if not above.any():
        return x, y
    last = np.flatnonzero(above[1:] != above[:-1])
    share = (top - y[last]) / (y[last + 1] - y[last])
    crossing = x[last] + share * (x[last + 1] - x[last])
    x, y = np.insert(x, last + 1, crossing), np.insert(y, last + 1, top)
    return x, np.where(y < top, np.nan, y)


def _line(x: np.ndarray, y: np.ndarray, top: float) -> QPainterPath:
    x, y = cut(x, y, top)
    return arrayToQPath(x, y, connect="finite" if np.isnan(y).any() else "all")


def _sparse(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A line's points some 3 pixels apart, and its last: dashes between closer points run together."""
    keep = np.unique(np.floor((x - x[0]) / 3), return_index=True)[1]
    keep = np.unique(np.append(keep, len(x) - 1))
    return x[keep], y[keep]
