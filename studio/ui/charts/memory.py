"""Memory over tokens: the kinds stacked under the 16-bit line, with the measured bytes across."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF
from PySide6.QtGui import QCursor, QFontMetricsF
from PySide6.QtWidgets import QToolTip

from studio.ui import words
from studio.ui.charts.areas import Areas, MemoryDrawing, Tip
from studio.ui.charts.figures import fine, table
from studio.ui.charts.frame import Table
from studio.ui.charts.ink import small
from studio.ui.charts.scale import decimal_ticks, limit, tick_words, worth_drawing
from studio.ui.charts.scene import Scene
from studio.ui.charts.timeline import Timeline
from studio.ui.charts.tokens_view import TokensView
from veloxquant_mlx.telemetry import BYTE_KINDS, ByteCount

PROMISE = "With the first tokens the bytes of the cache rise here, under the dashed line of 16 bits"
_MEASURED = ("resident", "active_memory")


class MemoryChart(TokensView):
    """Bytes of the whole cache list over the tokens of the conversation."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        super().__init__("Memory over tokens", "KV cache, MB", timeline or Timeline())
        self._areas = Areas(self.plot)
        self.plot.put(self._areas)
        self._scene = Scene()
        self.set_empty(PROMISE)

    @property
    def drawn(self) -> MemoryDrawing | None:
        """What is on the screen now, or None."""
        return self._areas.drawing

    @property
    def drawn_tops(self) -> dict[str, np.ndarray]:
        """Upper edge of every area that is drawn, bottom to top, bytes."""
        return self._areas.tops

    @property
    def tip(self) -> Tip | None:
        """The moment whose figures stand beside the lines."""
        return self._areas.tip

    def set_ghost(self, points: Sequence[tuple[float, float]] | None) -> None:
        """Draw a predicted curve over the data: (tokens, bytes) with rising tokens; None or nothing drops it.

        For what another configuration would take. The axes follow the data, not the ghost.
        """
        self._areas.ghost = np.asarray(points, np.float64) if points else None
        self._areas.update()

    def show_scene(self, scene: Scene) -> None:
        """Show a history with the figures of one moment of it."""
        self._scene = scene
        self.set_empty(scene.nothing(PROMISE))
        if scene.snapshot is None or scene.history is None or self.empty:
            self._areas.tip = None
            self._areas.take(None)
            self.set_words("")
            return
        shown, ratio = scene.snapshot, scene.snapshot.ratio
        self._areas.marks = scene.history.turn_marks
        self._areas.tip = Tip(
            shown.tokens, shown.reference_bytes, shown.resident_bytes, shown.gauge("frontier"), scene.live
        )
        smaller = f"{words.ratio(ratio)} smaller than 16 bits, counted" if ratio else scene.waiting
        self.set_words(smaller)
        self.arrange()

    def table(self) -> Table:
        """Every row of the history."""
        history = self._scene.history
        columns = {} if history is None else history.columns()
        units = {"tokens": "tokens", "frontier": "frontier, tokens"}
        names = [
            units.get(name, f"{name}, bytes {'measured' if name in _MEASURED else 'counted'}")
            for name in columns
        ]
        known = [[None if value != value else value for value in c.tolist()] for c in columns.values()]
        return names, zip(*known, strict=True)

    def zoom_up(self, factor: float, at: float = 0.0) -> None:
        """See ``factor`` times as much of the height, from its foot."""
        self.timeline.zoom_up(factor)

    def arrange(self) -> None:
        """Fit axes and ticks to the data, leaving room for the labels at the lines' ends."""
        history, tip = self._scene.history, self._areas.tip
        if history is None or tip is None:
            return
        columns = history.columns()
        width, height = self.plot.inside()
        metrics = QFontMetricsF(small(self.plot.font()))
        room = max(metrics.horizontalAdvance("".join(pair)) for pair in tip.words) * 1.06 + 12
        usable = max(0.45 * width, width - room)
        self.whole = limit(float(columns["tokens"][-1]) * width / usable, base=2)
        first, last = self.shown
        drawing = _stretch(columns, first, last, int(width))
        self._areas.take(drawing)
        tallest = max(
            1.0,
            *(float(line.max(initial=0)) for line in (drawing.reference, drawing.resident)),
            *(float(top.max(initial=0)) for top in self._areas.tops.values()),
        )
        high = limit(tallest * 1.04 * self.timeline.height / 1e6)
        levels = decimal_ticks(high, max(1, min(5, int(height / (metrics.height() * 2)))))
        step = levels[1] if len(levels) > 1 else high
        self._areas.grid = levels
        self.plot.set_ticks(self.ticks(), [(level, tick_words(level, step)) for level in levels])
        self.plot.show_range((first, last), (0, high))

    def hover(self, at: QPointF | None) -> None:
        """The figures of the row under the pointer."""
        history = self._scene.history
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
            int(columns["reference"][row]), self.plot.ink, notes,
        )  # fmt: skip
        QToolTip.showText(QCursor.pos(), text, self.plot)


def _stretch(columns: dict[str, np.ndarray], first: float, last: float, width: int) -> MemoryDrawing:
    """The rows worth drawing between two token counts, with values at the edges where rows lie beyond."""
    tokens = columns["tokens"]
    low, high = np.searchsorted(tokens, [first, last], "left")
    high = min(int(high) + (high < len(tokens) and tokens[high] == last), len(tokens))
    total = np.add.reduce([columns[kind][low:high] for kind in BYTE_KINDS])
    rows = low + worth_drawing(total, width) if high > low else np.zeros(0, np.intp)
    at = tokens[rows].astype(np.float64)
    before = low > 0 and (not len(at) or at[0] > first)
    after = high < len(tokens) and (not len(at) or at[-1] < last)
    if not (before or after):
        values = {name: columns[name][rows] for name in (*BYTE_KINDS, "resident", "reference")}
    else:
        at = np.concatenate([[first] if before else [], at, [last] if after else []])
        near = slice(max(0, int(low) - 1), high + 1)
        values = {
            name: np.interp(at, tokens[near], columns[name][near].astype(np.float64))
            for name in (*BYTE_KINDS, "resident", "reference")
        }
    return MemoryDrawing(
        at, {kind: values[kind] for kind in BYTE_KINDS}, values["resident"], values["reference"]
    )
