"""Layers: every cache slot's bytes by kind beside what it would take at 16 bits."""

import math

import numpy as np
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QCursor, QFontMetricsF
from PySide6.QtWidgets import QHBoxLayout, QToolTip, QWidget

from studio.ui import words
from studio.ui.charts.bars import WIDEST, Bars
from studio.ui.charts.figures import brief, sentence, table
from studio.ui.charts.frame import ChartFrame, Table
from studio.ui.charts.ink import STACK, small
from studio.ui.charts.plot import QuietPlot
from studio.ui.charts.scale import decimal_ticks, limit, tick_words
from studio.ui.charts.scene import Scene
from studio.ui.charts.slot_axis import follow_hand, slot_ticks, walk, zoom_key
from studio.ui.charts.slot_detail import SlotDetail, slot_notes
from studio.ui.charts.stretch import SlotStretch
from studio.ui.parts import margins, text_scale
from studio.ui.theme import Scheme
from veloxquant_mlx.telemetry import BYTE_KINDS, LayerStats

PROMISE = "Every slot of the cache will stand here as a bar, beside what it would take at 16 bits"
PICK = "Click a slot to read its bytes here"
DETAIL_WIDTH = 520
"""Pixels of the detail at 100 % text; it stands beside the bars where they keep as much."""


class LayersChart(ChartFrame):
    """One bar per slot; a click or the arrow keys select one and spell its bytes out."""

    slot_selected = Signal(object)
    """The position in the model's cache list that the person picked, or None."""

    def __init__(self, slots: SlotStretch | None = None) -> None:
        self.slots = slots or SlotStretch()
        self._plot = QuietPlot()
        follow_hand(self._plot, self.slots)
        self._detail_panel = SlotDetail()
        body = QWidget()
        row = QHBoxLayout(body)
        margins(row, 0, 0, 0, 0, 16)
        row.addWidget(self._plot, 1)
        row.addWidget(self._detail_panel)
        super().__init__("Layers", "MB per slot", body)
        self._bars = Bars(self._plot)
        self._plot.put(self._bars)
        self._plot.setAccessibleName("Layers")
        self._scene = Scene()
        self._plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._plot.resized.connect(self._arrange)
        self._plot.hovered.connect(self._hover)
        self._plot.pressed.connect(self._press)
        self.set_empty(PROMISE)

    @property
    def drawn(self) -> dict[str, np.ndarray]:
        """What is on the screen, bytes per slot: every kind of STACK, ``resident`` and ``reference``."""
        kinds = {kind: self._bars.kinds[:, column] for column, kind in enumerate(STACK)}
        return kinds | {"resident": self._bars.resident, "reference": self._bars.reference}

    @property
    def selected(self) -> int | None:
        """The selected slot."""
        return self._bars.selected

    @property
    def slot_detail(self) -> SlotDetail:
        """The figures of the selected slot, beside the bars."""
        return self._detail_panel

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        super().set_scheme(scheme)
        self._plot.scheme = scheme
        self._plot.dress()
        self._arrange()
        self._say()

    def set_alone(self, alone: bool, width: int) -> None:
        """Whether the view has the panel of a width for itself, and so room for a slot's detail."""
        wide = round(DETAIL_WIDTH * text_scale())
        self._detail_panel.setFixedWidth(wide)
        self._detail_panel.setVisible(alone and width >= 2 * wide)
        self._say()

    def show_scene(self, scene: Scene) -> None:
        """Show the slots at a moment."""
        self._scene = scene
        layers = scene.layers
        kinds = [[getattr(layer.counted, kind) for kind in STACK] for layer in layers]
        self._bars.take(
            np.array(kinds, np.int64).reshape(-1, len(STACK)),
            np.array([layer.resident_bytes for layer in layers], np.int64),
            np.array([layer.reference_bytes for layer in layers], np.int64),
        )
        self.set_empty("" if layers else PROMISE)
        self._arrange()
        self._say()

    def table(self) -> Table:
        """Every slot's bytes."""
        names = ["slot", "compressed", "tokens"]
        names += [f"{kind}, bytes counted" for kind in BYTE_KINDS]
        names += ["resident, bytes measured", "16 bits, bytes counted"]
        return names, [
            [
                layer.slot, layer.replaced, layer.tokens, *layer.counted.as_dict().values(),
                layer.resident_bytes, layer.reference_bytes,
            ]
            for layer in self._scene.layers
        ]  # fmt: skip

    def _say(self) -> None:
        """Refresh the words above and below the bars and at their side."""
        scene, plan = self._scene, self._scene.plan
        shown, slot = scene.snapshot, self._bars.selected
        if shown is None:
            partial = plan is not None and plan.replaced < len(plan.slots)
            self.set_words(plan.sentence.rstrip(".") if plan is not None and partial else "")
            self.set_detail("")
            return
        if plan is not None and not plan.replaced:
            self.set_words(plan.sentence.rstrip("."))
        elif shown.ratio is None:
            self.set_words(scene.waiting)
        else:
            ours, slots = sum(layer.replaced for layer in shown.layers), len(shown.layers)
            every = words.count(slots, "slot") + " compressed"
            self.set_words(every if ours == slots else f"{ours} of {every}")
        layer = shown.layers[slot] if slot is not None and slot < len(shown.layers) else None
        if not self._detail_panel.isHidden():
            self._detail_panel.show_slot(layer, scene, self._plot.ink)
            self.set_detail("")
        elif layer is None:
            self.set_detail(PICK)
        else:
            figures = sentence(layer.counted, layer.resident_bytes, layer.reference_bytes)
            more = "\n".join([figures, *slot_notes(layer, scene)])
            self.set_detail("; ".join([f"Slot {layer.slot}: {brief(layer)}", *self._notes(layer)]), more)

    def _notes(self, layer: LayerStats) -> list[str]:
        """Why a slot is not compressed, or where its frontier is."""
        if not layer.replaced:
            return [self._scene.reason(layer)]
        frontier = layer.gauges.get("frontier")
        return [] if frontier is None else [f"frontier at {int(frontier):,} of {layer.tokens:,}"]

    def _arrange(self) -> None:
        """Fit axes and ticks to the slots."""
        count = len(self._bars.kinds)
        if not count:
            return
        width, height = self._plot.inside()
        metrics = QFontMetricsF(small(self._plot.font()))
        totals = self._bars.kinds.sum(axis=1)
        tallest = max(int(totals.max()), int(self._bars.resident.max()), int(self._bars.reference.max()), 1)
        history = self._scene.history
        if history is not None and history.snapshot is not None:
            # Going back in time the axis stands still, so that the bars are seen to grow.
            tallest = max(tallest, *(layer.reference_bytes for layer in history.snapshot.layers), 1)
        high = limit(tallest * 1.06 / 1e6)
        first, last = self.slots.shown or (0.0, max(float(count), width / WIDEST))
        span = last - first
        levels = decimal_ticks(high, max(1, min(5, int(height / (metrics.height() * 2)))))
        rise = levels[1] if len(levels) > 1 else high
        self._bars.grid = levels
        self._plot.set_ticks(
            slot_ticks(count, width / span, metrics, self.slots.shown),
            [(level, tick_words(level, rise)) for level in levels],
        )
        # Room for the ring around the first slot and the last.
        pad = 4 * span / width
        self._plot.show_range((first - pad, last + pad), (0, high))

    def _slot_at(self, at: QPointF | None) -> int | None:
        slot = -1 if at is None else math.floor(at.x())
        return slot if 0 <= slot < len(self._bars.kinds) else None

    def _hover(self, at: QPointF | None) -> None:
        slot = self._slot_at(at)
        if slot != self._bars.hover:
            self._bars.hover = slot
            self._bars.update()
        if slot is None or not self._scene.layers:
            QToolTip.hideText()
            return
        layer = self._scene.layers[slot]
        text = table(
            f"Slot {slot}", layer.counted, layer.resident_bytes, layer.reference_bytes,
            self._plot.ink, slot_notes(layer, self._scene),
        )  # fmt: skip
        QToolTip.showText(QCursor.pos(), text, self._plot)

    def _press(self, at: QPointF) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.slot_selected.emit(self._slot_at(at))

    def select(self, slot: int | None) -> None:
        """Show a slot as the selected one, or none."""
        if slot != self._bars.selected:
            self._bars.selected = slot
            self._bars.update()
            self._say()

    def on_key(self, key: Qt.Key) -> bool:
        """Walk over the slots, zoom."""
        if zoom_key(key, self.slots, self._bars.selected):
            return True
        slot = walk(key, self._bars.selected, len(self._bars.kinds))
        if slot is None:
            return False
        self.slot_selected.emit(slot)
        return True
