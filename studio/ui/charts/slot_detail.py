"""One slot in figures: bytes by kind, bits per value, tokens, gauges and what the plan says of it."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from studio.ui.charts.figures import Line, lines
from studio.ui.charts.ink import Ink
from studio.ui.charts.meanings import MEANINGS, PLACES
from studio.ui.charts.scene import Scene
from studio.ui.parts import clear_scroll, label, margins
from veloxquant_mlx.telemetry import KIND_LABELS, LayerStats

PICK = "Click a slot, or walk with the arrow keys, to read what it holds."


class _Mark(QWidget):
    """A square in a kind's colour."""

    def __init__(self) -> None:
        super().__init__()
        self.colour = ""
        self.setFixedWidth(10)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The square, in the middle of its line."""
        if self.colour:
            painter = QPainter(self)
            painter.fillRect(1, self.height() // 2 - 4, 8, 8, QColor(self.colour))
            painter.end()


class _Figures(QWidget):
    """Lines of figures in columns. Only what changed is written anew: a rich text would be laid out whole."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[_Mark, QLabel, QLabel, QLabel]] = []
        self.head = label("", "strong")
        self._grid = QGridLayout(self)
        margins(self._grid, 0, 0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.addWidget(self.head, 0, 0, 1, 4)

    @property
    def text(self) -> str:
        """Everything shown, one line each."""
        shown = (words for mark, *words in self._rows if not mark.isHidden())
        return "\n".join([self.head.text(), *(" ".join(part.text() for part in words) for words in shown)])

    def show_lines(self, head: str, wanted: list[Line]) -> None:
        """Show these lines."""
        if head != self.head.text():
            self.head.setText(head)
        while len(self._rows) < len(wanted):
            row = (_Mark(), label(), label("", "strong"), label("", "muted"))
            row[2].setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            for column, part in enumerate(row):
                self._grid.addWidget(part, len(self._rows) + 1, column)
            self._rows.append(row)
        for index, (mark, *words) in enumerate(self._rows):
            line = wanted[index] if index < len(wanted) else None
            for part in (mark, *words):
                part.setVisible(line is not None)
            if line is None:
                continue
            if line.colour != mark.colour:
                mark.colour = line.colour
                mark.update()
            for part, text in zip(words, (line.name, line.figure, line.how), strict=True):
                if text != part.text():
                    part.setText(text)


class _Kinds(QWidget):
    """Every kind of byte, the frontier and a slot with their meanings, while no slot is chosen."""

    def __init__(self) -> None:
        super().__init__()
        grid = QGridLayout(self)
        margins(grid, 0, 0, 0, 0, 2)
        grid.setHorizontalSpacing(8)
        grid.setColumnStretch(2, 1)
        self._rows: dict[str, tuple[_Mark, QLabel, QLabel]] = {}
        said = {kind: (name, MEANINGS[kind]) for kind, name in KIND_LABELS.items()}
        said |= {word: (word, meaning) for word, meaning in PLACES.items()}
        for row, (kind, (name, meaning)) in enumerate(said.items()):
            cells = (_Mark(), label(name), label(meaning, "small", wrap=True))
            for column, cell in enumerate(cells):
                grid.addWidget(cell, row, column)
            self._rows[kind] = cells

    @property
    def text(self) -> str:
        """Everything shown, one line each."""
        shown = ((name, meaning) for _, name, meaning in self._rows.values() if not name.isHidden())
        return "\n".join(f"{name.text()}: {meaning.text()}" for name, meaning in shown)

    def show_kinds(self, ink: Ink, *, foreign: bool) -> None:
        """In a scheme's colours; slots that are not ours only where there are some."""
        for kind, (mark, _, _) in self._rows.items():
            mark.colour = ink.colours[kind].name() if kind in KIND_LABELS else ""
            mark.update()
        for cell in self._rows["foreign"]:
            cell.setVisible(foreign)


class SlotDetail(QScrollArea):
    """Shows what one slot holds; scrolls where the panel is low."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Selected slot")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inner = QWidget()
        self._pick, self._kinds = label(PICK, "lead", wrap=True), _Kinds()
        self._figures = _Figures()
        self._notes = label("", "small", wrap=True)
        column, row = QVBoxLayout(inner), QHBoxLayout()
        margins(column, 0, 0, 0, 0, 4)
        margins(row, 0, 0, 0, 0, 16)
        row.addWidget(self._figures, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._notes, 1, Qt.AlignmentFlag.AlignTop)
        column.addWidget(self._pick)
        column.addWidget(self._kinds)
        column.addLayout(row)
        column.addStretch(1)
        self.setWidget(inner)
        clear_scroll(self)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.show_slot(None, Scene(), None)

    @property
    def text(self) -> str:
        """What is shown."""
        if self._figures.isHidden():
            return f"{self._pick.text()}\n{self._kinds.text}"
        return f"{self._figures.text}\n{self._notes.text()}"

    def show_slot(self, layer: LayerStats | None, scene: Scene, ink: Ink | None) -> None:
        """Show a slot at the scene's moment, or how to choose one."""
        for shown in (self._pick, self._kinds):
            shown.setVisible(layer is None)
        self._figures.setVisible(layer is not None)
        self._notes.setVisible(layer is not None)
        if ink is None:
            return
        if layer is None:
            self._kinds.show_kinds(ink, foreign=any(not slot.replaced for slot in scene.layers))
            return
        head = f"Slot {layer.slot}"
        self._figures.show_lines(head, lines(layer.counted, layer.resident_bytes, layer.reference_bytes, ink))
        notes = "\n".join(slot_notes(layer, scene))
        if notes != self._notes.text():
            self._notes.setText(notes)
            self.setAccessibleDescription(f"{head}. {notes}")


def slot_notes(layer: LayerStats, scene: Scene) -> list[str]:
    """What a slot's figures come to, one line each: bits per value, tokens, gauges, the plan's reason."""
    # A recurrent state holds no tokens, however many went into it.
    notes = [f"{layer.tokens:,} tokens"] if layer.tokens else []
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
