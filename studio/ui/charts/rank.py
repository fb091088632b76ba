"""Rank: how many latent channels every head keeps, and one head's spectrum with the cut."""

import math
from html import escape

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QCursor, QFontMetricsF, QPainter, QPen, QTransform
from PySide6.QtWidgets import QHBoxLayout, QToolTip, QWidget

from studio.ui.charts.frame import ChartFrame, Table
from studio.ui.charts.ink import small
from studio.ui.charts.plot import PixelItem, QuietPlot
from studio.ui.charts.ramp import RampKey, shade
from studio.ui.charts.scene import Scene
from studio.ui.charts.slot_axis import follow_hand, slot_ticks, walk, zoom_key
from studio.ui.charts.spectrum import Spectrum, head_facts
from studio.ui.charts.stretch import SlotStretch
from studio.ui.parts import margins
from studio.ui.theme import Scheme
from veloxquant_mlx.telemetry import HeadBasis

PROMISE = "Every head will have its cell here: how many directions of its keys it keeps"
NOT_FITTED = "Each head gets its rank with the first codes, when its basis is fitted to the keys."
PICK = "Click a head, or walk with the arrow keys, to see its spectrum"
WIDEST = 56.0
"""Pixels a slot's column may be wide."""


def no_rank(label: str) -> str:
    """Why a method has no ranks."""
    return (
        f"{label} has no rank: it stores every channel of a key and keeps no basis. "
        "A method that projects keys onto their strongest directions, such as SVDq, has one per head."
    )


class Cells(PixelItem):
    """Paints a rank per slot and head, slots from left to right, heads from top to bottom."""

    def __init__(self, plot: QuietPlot) -> None:
        super().__init__(plot)
        self.ranks = np.zeros((0, 0))
        """[slots, heads]; NaN where there is none."""
        self.selected: tuple[int, int] | None = None
        self.hover: tuple[int, int] | None = None

    def bounds(self) -> tuple[float, float]:
        """The least and the largest rank; (0, 1) for none."""
        known = self.ranks[np.isfinite(self.ranks)]
        return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)

    def colour(self, rank: float, scheme: Scheme) -> QColor:
        """The colour of a rank among those shown."""
        low, high = self.bounds()
        return shade((rank - low) / (high - low) if high > low else 0.6, scheme)

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        slots, heads = self.ranks.shape
        if not slots or not heads:
            return
        ink, scheme = self._plot.ink, self._plot.scheme
        x = np.round(np.arange(slots + 1) * to_pixels.m11() + to_pixels.dx())
        pitch = to_pixels.m11()
        # A drawing saved as lines knows no clip.
        x = np.clip(x, frame.left(), frame.right())
        y = np.round(np.arange(heads + 1) * to_pixels.m22() + to_pixels.dy())
        gap = 0.0 if min(pitch, y[1] - y[0]) < 4 else 1.0 if pitch < 20 else 2.0
        font = small(self._plot.font())
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        widest = metrics.horizontalAdvance(f"{self.bounds()[1]:.0f}")
        written = pitch >= widest + 4 and y[1] - y[0] >= metrics.height()
        seen = np.flatnonzero(np.diff(x) > gap).tolist()
        for slot in seen:
            for head in range(heads):
                cell = QRectF(x[slot], y[head], x[slot + 1] - x[slot] - gap, y[head + 1] - y[head] - gap)
                rank = self.ranks[slot, head]
                if math.isnan(rank):
                    painter.fillRect(cell, ink.brushes["foreign"])
                    continue
                colour = self.colour(rank, scheme)
                painter.fillRect(cell, colour)
                if written and cell.width() >= widest:
                    painter.setPen(QColor("#000000" if colour.lightnessF() > 0.5 else "#FFFFFF"))
                    painter.drawText(cell, Qt.AlignmentFlag.AlignCenter, f"{rank:.0f}")
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for place, wide in ((self.hover, 1.0), (self.selected, 2.0)):
            if place is not None and place[0] in seen and place[1] < heads:
                (slot, head) = place
                painter.setPen(QPen(ink.text, wide))
                painter.drawRect(
                    QRectF(x[slot], y[head], x[slot + 1] - x[slot] - gap, y[head + 1] - y[head] - gap)
                )


class RankView(ChartFrame):
    """Slots x heads as colour; the chosen head's spectrum stands beside."""

    slot_selected = Signal(object)
    """The slot that the person picked, or None."""

    def __init__(self, slots: SlotStretch | None = None) -> None:
        self.slots = slots or SlotStretch()
        self.plot = QuietPlot()
        follow_hand(self.plot, self.slots)
        self.spectrum = Spectrum()
        body = QWidget()
        row = QHBoxLayout(body)
        margins(row, 0, 0, 0, 0, 20)
        row.addWidget(self.plot, 3)
        row.addWidget(self.spectrum, 2)
        self._key = RampKey()
        super().__init__("Rank", "directions of the keys kept, slots × heads", body, self._key)
        self._cells = Cells(self.plot)
        self.plot.put(self._cells)
        self.plot.getViewBox().invertY(True)
        self.plot.setAccessibleName("Rank")
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.plot.resized.connect(self._arrange)
        self.plot.hovered.connect(self._hover)
        self.plot.pressed.connect(self._press)
        self._scene = Scene()
        self._slot: int | None = None
        self._chosen_head = 0
        self.set_empty(PROMISE)

    @property
    def drawn(self) -> np.ndarray:
        """Ranks on the screen, [slots, heads], NaN where there is none."""
        return self._cells.ranks

    @property
    def selected(self) -> tuple[int, int] | None:
        """Slot and head whose spectrum is shown."""
        return self._cells.selected

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        super().set_scheme(scheme)
        self.plot.scheme = scheme
        self.plot.dress()
        self.spectrum.set_scheme(scheme)
        self._key.set_scheme(scheme)
        self._arrange()

    def show_scene(self, scene: Scene) -> None:
        """Show the ranks at a moment."""
        self._scene = scene
        heads = max((len(layer.heads) for layer in scene.layers), default=0)
        ranks = [
            [basis.rank for basis in layer.heads] + [math.nan] * (heads - len(layer.heads))
            for layer in scene.layers
        ]
        self._cells.ranks = np.array(ranks, np.float64).reshape(len(scene.layers), heads)
        self._cells.update()
        self.set_empty(self._why_empty(heads))
        if heads:
            low, high = self._cells.bounds()
            mean = float(np.nanmean(self._cells.ranks))
            self.set_words(f"{mean:.1f} of {self._channels()} channels on average")
            self._key.show_ends(f"rank {low:.0f}", f"{high:.0f}")
        else:
            self.set_words("")
            self._key.show_ends("", "")
        self._arrange()
        self.select(self._slot)

    def table(self) -> Table:
        """Every latent channel of every head."""
        rows: list[list[object]] = []
        for layer in self._scene.layers:
            for head, basis in enumerate(layer.heads):
                drift = layer.drift[head] if head < len(layer.drift) else None
                for channel, share in enumerate(basis.spectrum):
                    bits = basis.bits[channel] if channel < basis.rank else None
                    rows.append([layer.slot, head, basis.rank, drift, channel, share, bits])
        names = [
            "slot", "head", "rank, channels", "drift, share of energy measured", "direction",
            "share of energy", "bits",
        ]  # fmt: skip
        return names, rows

    def select(self, slot: int | None) -> None:
        """Show a slot's head as the selected one, or none."""
        self._slot = slot
        count, heads = self._cells.ranks.shape
        chosen = slot is not None and slot < count and heads
        place = (slot, min(self._chosen_head, heads - 1)) if slot is not None and chosen else None
        if place != self._cells.selected:
            self._cells.selected = place
            self._cells.update()
        self._tell()

    def on_key(self, key: Qt.Key) -> bool:
        """Left and right walk over slots, up and down over heads; zoom."""
        count, heads = self._cells.ranks.shape
        now = self._cells.selected
        if zoom_key(key, self.slots, None if now is None else now[0]):
            return True
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and now is not None:
            self._chosen_head = walk(key, now[1], heads, Qt.Key.Key_Up, Qt.Key.Key_Down) or 0
            self.select(now[0])
            return True
        slot = walk(key, None if now is None else now[0], count if heads else 0)
        if slot is None:
            return False
        self.slot_selected.emit(slot)
        return True

    def _channels(self) -> str:
        """Channels of a key head, as a span where slots differ."""
        sizes = {len(basis.spectrum) for layer in self._scene.layers for basis in layer.heads}
        return f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"

    def _why_empty(self, heads: int) -> str:
        method = self._scene.method
        if heads:
            return ""
        if method is not None and "rank" not in method.gauges:
            return no_rank(method.label)
        if self._scene.snapshot is None:
            return PROMISE
        plan = self._scene.plan
        if plan is not None and not plan.replaced:
            return plan.sentence
        return f"{self._scene.waiting}. {NOT_FITTED}"

    def _basis(self, place: tuple[int, int] | None) -> tuple[HeadBasis, float | None] | None:
        """The basis and the drift of a slot's head."""
        layers = self._scene.layers
        if place is None or place[0] >= len(layers) or place[1] >= len(layers[place[0]].heads):
            return None
        layer, head = layers[place[0]], place[1]
        return layer.heads[head], layer.drift[head] if head < len(layer.drift) else None

    def _tell(self) -> None:
        """The selected head's spectrum, and its figures in words."""
        place = self._cells.selected
        found = self._basis(place)
        if found is None or place is None:
            self.spectrum.show_head(None)
            nothing = PICK if place is None else self._none(place[0])
            self.set_detail("" if self.empty else nothing)
            return
        self.spectrum.show_head(found[0])
        self.set_detail(f"Slot {place[0]}, head {place[1]}: {'; '.join(head_facts(*found))}")

    def _none(self, slot: int) -> str:
        """Why a slot has no rank."""
        layers = self._scene.layers
        reason = f" {self._scene.reason(layers[slot])}" if slot < len(layers) else ""
        return f"Slot {slot} has no rank.{reason}"

    def _arrange(self) -> None:
        slots, heads = self._cells.ranks.shape
        if not slots or not heads:
            return
        width, height = self.plot.inside()
        metrics = QFontMetricsF(small(self.plot.font()))
        first, last = self.slots.shown or (0.0, max(float(slots), width / WIDEST))
        along = slot_ticks(slots, width / (last - first), metrics, self.slots.shown)
        pitch = height / heads * metrics.horizontalAdvance("0000") / metrics.height()
        self.plot.set_ticks(along, slot_ticks(heads, pitch, metrics))
        self.plot.show_range((first, last), (0.0, float(heads)))

    def _place(self, at: QPointF | None) -> tuple[int, int] | None:
        slots, heads = self._cells.ranks.shape
        if at is None:
            return None
        slot, head = math.floor(at.x()), math.floor(at.y())
        return (slot, head) if 0 <= slot < slots and 0 <= head < heads else None

    def _hover(self, at: QPointF | None) -> None:
        place = self._place(at)
        if place != self._cells.hover:
            self._cells.hover = place
            self._cells.update()
        if place is None:
            QToolTip.hideText()
            return
        found = self._basis(place)
        told = [self._none(place[0])] if found is None else head_facts(*found)
        name = f'<span style="font-weight:600">Slot {place[0]}, head {place[1]}</span>'
        QToolTip.showText(QCursor.pos(), "<br>".join([name, *map(escape, told)]), self.plot)

    def _press(self, at: QPointF) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        place = self._place(at)
        if place is not None:
            self._chosen_head = place[1]
        slot = None if place is None else place[0]
        self.slot_selected.emit(slot)
        self.select(slot)
