"""Layers: every cache slot's bytes by kind beside what it would take at 16 bits."""

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QCursor, QFocusEvent, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip

from studio.ui import words
from studio.ui.charts.bars import WIDEST, Bars
from studio.ui.charts.figures import sentence, table
from studio.ui.charts.frame import ChartFrame
from studio.ui.charts.ink import STACK, small
from studio.ui.charts.memory import NOTHING, WAITING
from studio.ui.charts.plot import QuietPlot
from studio.ui.charts.scale import decimal_ticks, limit, tick_words
from studio.ui.theme import Scheme
from veloxquant_mlx.steps import Plan
from veloxquant_mlx.telemetry import CacheSnapshot, LayerStats

PICK = "Click a slot to read its bytes here"
_SLOT_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class LayersChart(ChartFrame):
    """One bar per slot; a click or the arrow keys select one and spell its bytes out below."""

    slot_selected = Signal(int)
    """The position in the model's cache list that the person picked."""

    def __init__(self) -> None:
        self._plot = QuietPlot()
        super().__init__("Layers", "MB per slot", self._plot)
        self._bars = Bars(self._plot)
        self._plot.addItem(self._bars, ignoreBounds=True)
        self._plot.setAccessibleName("Layers")
        self._snapshot: CacheSnapshot | None = None
        self._plan: Plan | None = None
        self._waiting = WAITING
        self._ringed = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._plot.resized.connect(self._arrange)
        self._plot.hovered.connect(self._hover)
        self._plot.pressed.connect(self._press)
        self.set_empty(NOTHING)

    @property
    def drawn(self) -> dict[str, np.ndarray]:
        """What is on the screen, bytes per slot: every kind of STACK, ``resident`` and ``reference``."""
        kinds = {kind: self._bars.kinds[:, column] for column, kind in enumerate(STACK)}
        return kinds | {"resident": self._bars.resident, "reference": self._bars.reference}

    @property
    def selected(self) -> int | None:
        """The selected slot."""
        return self._bars.selected

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self._plot.scheme = scheme
        self._plot.dress()
        self._arrange()

    def set_plan(self, plan: Plan | None) -> None:
        """Which slots are replaced and why the others are not; another model's selection is dropped."""
        if self._plan is None or plan is None or len(plan.slots) != len(self._plan.slots):
            self.select(None)
        self._plan = plan
        self._say()

    def draw(self, snapshot: CacheSnapshot | None, waiting: str = WAITING) -> None:
        """Show a snapshot; ``waiting`` are the words while nothing is compressed."""
        self._snapshot = snapshot if snapshot is not None and snapshot.tokens and snapshot.layers else None
        self._waiting = waiting
        layers = () if self._snapshot is None else self._snapshot.layers
        kinds = [[getattr(layer.counted, kind) for kind in STACK] for layer in layers]
        self._bars.take(
            np.array(kinds, np.int64).reshape(-1, len(STACK)),
            np.array([layer.resident_bytes for layer in layers], np.int64),
            np.array([layer.reference_bytes for layer in layers], np.int64),
        )
        if self._bars.selected is not None and layers and self._bars.selected >= len(layers):
            self.select(None)
        self.set_empty("" if layers else NOTHING)
        self._arrange()
        self._say()

    def _say(self) -> None:
        """Refresh the words above and below the bars."""
        snapshot, plan = self._snapshot, self._plan
        if snapshot is None:
            partial = plan is not None and plan.replaced < len(plan.slots)
            self.set_words(plan.sentence.rstrip(".") if plan is not None and partial else "")
            self.set_detail("")
            return
        if plan is not None and not plan.replaced:
            self.set_words(plan.sentence.rstrip("."))
        elif snapshot.ratio is None:
            self.set_words(self._waiting)
        else:
            ours, slots = sum(layer.replaced for layer in snapshot.layers), len(snapshot.layers)
            every = words.count(slots, "slot") + " compressed"
            self.set_words(every if ours == slots else f"{ours} of {every}")
        slot = self._bars.selected
        if slot is None or slot >= len(snapshot.layers):
            self.set_detail(PICK)
            return
        layer = snapshot.layers[slot]
        figures = sentence(layer.counted, layer.resident_bytes, layer.reference_bytes)
        self.set_detail(". ".join([f"Slot {slot}: {figures}", *self._notes(layer)]))

    def _notes(self, layer: LayerStats) -> list[str]:
        """Why a slot is not compressed, or its gauges in words."""
        if not layer.replaced:
            plan = self._plan
            known = plan is not None and layer.slot < len(plan.slots)
            return [
                f"Not compressed: it {plan.slots[layer.slot].reason}" if plan and known else "Not compressed"
            ]
        frontier = layer.gauges.get("frontier")
        return [] if frontier is None else [f"Frontier at {int(frontier):,} of {layer.tokens:,} tokens"]

    def _arrange(self) -> None:
        """Fit axes and ticks to the slots."""
        count = len(self._bars.kinds)
        if not count:
            return
        width, height = self._plot.inside()
        metrics = QFontMetricsF(small(self._plot.font()))
        totals = self._bars.kinds.sum(axis=1)
        tallest = max(int(totals.max()), int(self._bars.resident.max()), int(self._bars.reference.max()), 1)
        high = limit(tallest * 1.06 / 1e6)
        span = max(float(count), width / WIDEST)
        label = metrics.horizontalAdvance("0000") * 1.6
        step = next(s for s in _SLOT_STEPS if s * width / span >= label or s == _SLOT_STEPS[-1])
        x = [(slot + 0.5, str(slot)) for slot in range(0, count, step)]
        levels = decimal_ticks(high, max(1, min(5, int(height / (metrics.height() * 2)))))
        rise = levels[1] if len(levels) > 1 else high
        self._bars.grid = levels
        self._plot.set_ticks(x, [(level, tick_words(level, rise)) for level in levels])
        # Room for the ring around the first slot and the last.
        pad = 4 * span / width
        self._plot.show_range((-pad, span + pad), (0, high))

    def _slot_at(self, at: QPointF | None) -> int | None:
        slot = -1 if at is None else math.floor(at.x())
        return slot if 0 <= slot < len(self._bars.kinds) else None

    def _hover(self, at: QPointF | None) -> None:
        slot = self._slot_at(at)
        if slot != self._bars.hover:
            self._bars.hover = slot
            self._bars.update()
        if slot is None or self._snapshot is None:
            QToolTip.hideText()
            return
        layer = self._snapshot.layers[slot]
        text = table(
            f"Slot {slot}", layer.counted, layer.resident_bytes, layer.reference_bytes,
            self._plot.ink, self._notes(layer),
        )  # fmt: skip
        QToolTip.showText(QCursor.pos(), text, self._plot)

    def _press(self, at: QPointF) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.select(self._slot_at(at))

    def select(self, slot: int | None) -> None:
        """Select a slot, or none, as a click would; ``slot_selected`` follows when it is another one."""
        if slot == self._bars.selected:
            return
        self._bars.selected = slot
        self._bars.update()
        self._say()
        if slot is not None:
            self.slot_selected.emit(slot)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._bars.kinds) - 1
        now = self._bars.selected
        moves = {
            Qt.Key.Key_Left: last if now is None else max(0, now - 1),
            Qt.Key.Key_Right: 0 if now is None else min(last, now + 1),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        key = Qt.Key(event.key())
        if last < 0 or key not in moves:
            super().keyPressEvent(event)
            return
        self.select(moves[key])

    def focusInEvent(self, event: QFocusEvent) -> None:
        # A click shows its own ring around the slot; the frame's is for those who come by keyboard.
        self._ringed = event.reason() != Qt.FocusReason.MouseFocusReason
        super().focusInEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus() and self._ringed:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(self._plot.ink.tokens.accent), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
            painter.end()
