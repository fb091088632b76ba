"""One slot in figures: bytes by kind, bits per value, tokens, gauges and what the plan says of it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from studio.ui.charts.figures import table
from studio.ui.charts.ink import Ink
from studio.ui.charts.scene import Scene
from studio.ui.parts import clear_scroll, label, margins
from veloxquant_mlx.telemetry import LayerStats

PICK = "Click a slot, or walk with the arrow keys, to read what it holds."


class SlotDetail(QScrollArea):
    """Shows what one slot holds; scrolls where the panel is low."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Selected slot")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inner = QWidget()
        self._pick = label(PICK, "lead", wrap=True)
        self._figures = QLabel()
        self._figures.setTextFormat(Qt.TextFormat.RichText)
        self._figures.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self._figures.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._notes = label("", "small", wrap=True)
        column, row = QVBoxLayout(inner), QHBoxLayout()
        margins(column, 0, 0, 0, 0, 4)
        margins(row, 0, 0, 0, 0, 16)
        row.addWidget(self._figures, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._notes, 1, Qt.AlignmentFlag.AlignTop)
        column.addWidget(self._pick)
        column.addLayout(row)
        column.addStretch(1)
        self.setWidget(inner)
        clear_scroll(self)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.show_slot(None, Scene(), None)

    @property
    def text(self) -> str:
        """What is shown, figures as rich text."""
        shown = (part for part in (self._pick, self._figures, self._notes) if not part.isHidden())
        return "\n".join(part.text() for part in shown)

    def show_slot(self, layer: LayerStats | None, scene: Scene, ink: Ink | None) -> None:
        """Show a slot at the scene's moment, or how to choose one."""
        self._pick.setVisible(layer is None)
        self._figures.setVisible(layer is not None)
        self._notes.setVisible(layer is not None)
        if layer is None or ink is None:
            return
        head = f"Slot {layer.slot}"
        figures = table(head, layer.counted, layer.resident_bytes, layer.reference_bytes, ink)
        if figures != self._figures.text():
            self._figures.setText(figures)
        notes = "\n".join(slot_notes(layer, scene))
        if notes != self._notes.text():
            self._notes.setText(notes)
            self.setAccessibleDescription(f"{head}. {notes}")


def slot_notes(layer: LayerStats, scene: Scene) -> list[str]:
    """What a slot's figures come to, one line each: bits per value, tokens, gauges, the plan's reason."""
    notes = [f"{layer.tokens:,} tokens"]
    if layer.replaced and layer.reference_bytes and layer.counted.total:
        bits = 16 * layer.counted.total / layer.reference_bytes
        notes.append(f"{bits:.2f} bits per value, counted end to end")
    declared = {} if scene.method is None else scene.method.gauges
    for name, value in layer.gauges.items():
        gauge = declared.get(name)
        unit = f" {gauge.unit}" if gauge is not None and gauge.unit else ""
        notes.append(f"{gauge.label if gauge is not None else name}: {value:,.4g}{unit}")
    if layer.heads:
        ranks = [head.rank for head in layer.heads]
        spread = f"{min(ranks)}" if min(ranks) == max(ranks) else f"{min(ranks)} to {max(ranks)}"
        notes.append(f"Rank of its {len(ranks)} heads: {spread} of {len(layer.heads[0].spectrum)} channels")
    return [*notes, scene.reason(layer)]
