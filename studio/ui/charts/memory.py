"""Memory over tokens: the kinds stacked under the 16-bit line, with the measured bytes across."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pyqtgraph.functions import arrayToQPath, arrayToQPolygonF
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QCursor, QFont, QFontMetricsF, QPainter, QPen, QTransform
from PySide6.QtWidgets import QToolTip

from studio.core.history import History
from studio.ui import words
from studio.ui.charts.figures import fine, table
from studio.ui.charts.frame import ChartFrame
from studio.ui.charts.ink import STACK, small
from studio.ui.charts.plot import RIGHT, PixelItem, QuietPlot
from studio.ui.charts.scale import binary_ticks, decimal_ticks, limit, tick_words, worth_drawing
from studio.ui.theme import Scheme
from veloxquant_mlx.telemetry import BYTE_KINDS, ByteCount

NOTHING = "Nothing yet: the first message fills this chart"
WAITING = "Nothing compressed yet: the first tokens stay exact"


@dataclass(frozen=True, slots=True, eq=False)
class MemoryDrawing:
    """What the chart shows: the rows of the history picked for drawing, in bytes."""

    tokens: np.ndarray
    kinds: dict[str, np.ndarray]
    resident: np.ndarray
    reference: np.ndarray


class _Areas(PixelItem):
    """Paints a MemoryDrawing."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.drawing: MemoryDrawing | None = None
        self.tops: dict[str, np.ndarray] = {}
        self.grid: list[float] = []
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
        drawing = self.drawing
        if drawing is None or not len(drawing.tokens):
            return
        ink = self._plot.ink
        painter.setClipRect(frame)
        painter.setPen(ink.grid)
        for value in self.grid:
            y = round(to_pixels.map(QPointF(0, value)).y()) - 0.5
            painter.drawLine(QLineF(frame.left(), y, frame.right(), y))
        x = drawing.tokens * to_pixels.m11() + to_pixels.dx()
        base = to_pixels.dy()

        def height(values: np.ndarray) -> np.ndarray:
            return values * (to_pixels.m22() / 1e6) + base

        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        # Each area reaches down to the axis and is overpainted by the next: edges without seams.
        for kind in reversed(self.tops):
            outline = (
                np.concatenate([[x[0]], x, [x[-1]]]),
                np.concatenate([[base], height(self.tops[kind]), [base]]),
            )
            painter.setBrush(ink.brushes[kind])
            painter.drawPolygon(arrayToQPolygonF(*outline))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        self._paint_marks(painter, to_pixels, frame)
        reference, resident = height(drawing.reference), height(drawing.resident)
        painter.setPen(ink.resident)
        painter.drawPath(arrayToQPath(x, resident))
        painter.setPen(ink.reference)
        painter.drawPath(arrayToQPath(*_sparse(x, reference)))
        if self.ghost is not None:
            painter.setPen(ink.ghost)
            painter.drawPath(
                arrayToQPath(self.ghost[:, 0] * to_pixels.m11() + to_pixels.dx(), height(self.ghost[:, 1]))
            )
        self._paint_ends(painter, frame, float(x[-1]), float(reference[-1]), float(resident[-1]))
        if self.hover is not None:
            at = to_pixels.map(QPointF(self.hover, 0)).x()
            painter.setPen(QPen(ink.text, 1))
            painter.drawLine(QLineF(at, frame.top(), at, frame.bottom()))

    def _paint_marks(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        """Short ticks on the axis where a reply began."""
        ink = self._plot.ink
        painter.setPen(QPen(ink.text, 1))
        for mark in self.marks:
            at = round(to_pixels.map(QPointF(mark, 0)).x()) + 0.5
            painter.drawLine(QLineF(at, frame.bottom() - 5, at, frame.bottom()))

    def _paint_ends(
        self, painter: QPainter, frame: QRectF, x: float, reference: float, resident: float
    ) -> None:
        """The last value of both lines, written at their ends and kept apart."""
        ink, drawing = self._plot.ink, self.drawing
        if drawing is None:
            return
        plain = small(self._plot.font())
        bold = QFont(plain)
        bold.setWeight(QFont.Weight.DemiBold)
        line = QFontMetricsF(bold).height()
        texts = end_words(drawing)
        low, high = frame.top() + line / 2, frame.bottom() - line / 2
        ends = [min(max(reference, low), high), min(max(resident, low), high)]
        if abs(ends[0] - ends[1]) < line:
            upper = 0 if reference <= resident else 1
            middle = min(max(sum(ends) / 2, low + line / 2), high - line / 2)
            ends[upper], ends[1 - upper] = middle - line / 2, middle + line / 2
        painter.setPen(Qt.PenStyle.NoPen)
        for dot, colour in ((reference, ink.colours["reference"]), (resident, ink.text)):
            painter.setBrush(colour)
            painter.drawEllipse(QPointF(x, dot), 2.5, 2.5)
        for y, (figure, rest), colour in zip(ends, texts, (ink.muted, ink.text), strict=True):
            wide = QFontMetricsF(bold).horizontalAdvance(figure)
            whole = wide + QFontMetricsF(plain).horizontalAdvance(rest)
            left = min(x + 8, frame.right() - whole)
            back = QRectF(left - 2, y - line / 2, whole + 4, line)
            if left < x + 8:
                painter.fillRect(back, ink.halo)
            painter.setFont(bold)
            painter.setPen(colour)
            align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(back.adjusted(2, 0, 0, 0), align, figure)
            painter.setFont(plain)
            painter.setPen(ink.muted)
            painter.drawText(back.adjusted(2 + wide, 0, 0, 0), align, rest)


def end_words(drawing: MemoryDrawing) -> tuple[tuple[str, str], tuple[str, str]]:
    """The direct labels of the 16-bit line and of the measured line: the strong part and the rest."""
    reference, resident = fine(int(drawing.reference[-1])), fine(int(drawing.resident[-1]))
    return (f"16-bit, {reference}", " counted"), (resident, " resident, measured")


def _sparse(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A line's points some 3 pixels apart, and its last: dashes between closer points run together."""
    keep = np.unique(np.floor((x - x[0]) / 3), return_index=True)[1]
    keep = np.unique(np.append(keep, len(x) - 1))
    return x[keep], y[keep]


class MemoryChart(ChartFrame):
    """Bytes of the whole cache list over the tokens of the conversation."""

    def __init__(self) -> None:
        self._plot = QuietPlot()
        super().__init__("Memory over tokens", "KV cache, MB", self._plot)
        self._areas = _Areas(self._plot)
        self._plot.addItem(self._areas, ignoreBounds=True)
        self._plot.setAccessibleName("Memory over tokens")
        self._history: History | None = None
        self._plot.resized.connect(self._arrange)
        self._plot.hovered.connect(self._hover)
        self.set_empty(NOTHING)

    @property
    def drawn(self) -> MemoryDrawing | None:
        """What is on the screen now, or None."""
        return self._areas.drawing

    @property
    def drawn_tops(self) -> dict[str, np.ndarray]:
        """Upper edge of every area that is drawn, bottom to top, bytes."""
        return self._areas.tops

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self._plot.scheme = scheme
        self._plot.dress()
        self._arrange()

    def set_ghost(self, points: Sequence[tuple[float, float]] | None) -> None:
        """Draw a predicted curve over the data: (tokens, bytes) with rising tokens; None or nothing drops it.

        For what another configuration would take. The axes follow the data, not the ghost.
        """
        self._areas.ghost = np.asarray(points, np.float64) if points else None
        self._areas.update()

    def draw(self, history: History | None, waiting: str = WAITING) -> None:
        """Show a history; ``waiting`` are the words while nothing is compressed."""
        self._history = history
        if history is None or history.snapshot is None or not history.snapshot.tokens:
            self._areas.take(None)
            self.set_words("")
            self.set_empty(NOTHING)
            return
        columns = history.columns()
        total = np.add.reduce([columns[kind] for kind in BYTE_KINDS])
        rows = worth_drawing(total, int(self._plot.inside()[0]))
        self._areas.marks = history.turn_marks
        self._areas.take(
            MemoryDrawing(
                columns["tokens"][rows].astype(np.float64),
                {kind: columns[kind][rows] for kind in BYTE_KINDS},
                columns["resident"][rows],
                columns["reference"][rows],
            )
        )
        ratio = history.snapshot.ratio
        self.set_words(waiting if ratio is None else f"{words.ratio(ratio)} smaller than 16 bits, counted")
        self.set_empty("")
        self._arrange()

    def _arrange(self) -> None:
        """Fit axes and ticks to the data, leaving room for the labels at the lines' ends."""
        drawing = self.drawn
        if drawing is None:
            return
        width, height = self._plot.inside()
        metrics = QFontMetricsF(small(self._plot.font()))
        room = max(metrics.horizontalAdvance("".join(pair)) for pair in end_words(drawing)) * 1.06 + 12
        usable = max(0.45 * width, width - room)
        end = limit(float(drawing.tokens[-1]) * width / usable, base=2)
        tallest = max(float(drawing.reference.max()), float(drawing.resident.max()))
        tallest = max(tallest, *(float(top.max()) for top in self._areas.tops.values()), 1.0)
        high = limit(tallest * 1.04 / 1e6)
        most = max(1, int(width / (metrics.horizontalAdvance("1,000,000") * 1.7)))
        x = [(float(tick), f"{tick:,}") for tick in binary_ticks(end, min(8, most))]
        # A number that would be cut at the edge is left out.
        x = [
            (at, text)
            for at, text in x
            if at * width / end + metrics.horizontalAdvance(text) / 2 <= width + RIGHT
        ]
        levels = decimal_ticks(high, max(1, min(5, int(height / (metrics.height() * 2)))))
        step = levels[1] if len(levels) > 1 else high
        self._areas.grid = levels
        self._plot.set_ticks(x, [(level, tick_words(level, step)) for level in levels])
        self._plot.show_range((0, end), (0, high))

    def _hover(self, at: QPointF | None) -> None:
        history = self._history
        inside = at is not None and history is not None and len(history) > 0
        if not inside or at is None or history is None or at.x() > float(history.columns()["tokens"][-1]):
            if self._areas.hover is not None:
                self._areas.hover = None
                self._areas.update()
                QToolTip.hideText()
            return
        columns = history.columns()
        row = min(int(np.searchsorted(columns["tokens"], max(0.0, at.x()))), len(history) - 1)
        tokens = int(columns["tokens"][row])
        self._areas.hover = float(tokens)
        self._areas.update()
        counted = ByteCount(**{kind: int(columns[kind][row]) for kind in BYTE_KINDS})
        notes = [f"{fine(int(columns['active_memory'][row]))} active memory of MLX, measured"]
        if np.isfinite(columns["frontier"][row]):
            notes.append(f"flush frontier at {words.count(int(columns['frontier'][row]), 'token')}")
        if turn := bisect_right(history.turn_marks, tokens):
            notes.append(f"reply {turn} began at {words.count(history.turn_marks[turn - 1], 'token')}")
        text = table(
            words.count(tokens, "token"), counted, int(columns["resident"][row]),
            int(columns["reference"][row]), self._plot.ink, notes,
        )  # fmt: skip
        QToolTip.showText(QCursor.pos(), text, self._plot)
