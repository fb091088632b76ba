"""Bytes of a slot or of a moment in words, as a sentence and as a small table for a tooltip."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from studio.ui.charts.ink import STACK, Ink
from veloxquant_mlx.telemetry import KIND_LABELS, ByteCount, LayerStats


def mega(count: float) -> str:
    """Bytes in MB without the unit: one decimal from 10 MB on, below three significant figures or two."""
    value = count / 1e6
    if value >= 9.995 or not value:
        return f"{value:,.1f}"
    return f"{value:.2f}" if value >= 0.9995 else f"{value:.3f}" if value >= 0.00995 else f"{value:.2g}"


def fine(count: float) -> str:
    """Bytes in MB with their unit."""
    return f"{mega(count)} MB"


def parts(counted: ByteCount) -> list[tuple[str, int]]:
    """The kinds that hold bytes, from the top of the stack down."""
    return [(kind, getattr(counted, kind)) for kind in reversed(STACK) if getattr(counted, kind)]


def brief(layer: LayerStats) -> str:
    """A slot's bytes against 16 bits."""
    return f"{mega(layer.counted.total)} of {fine(layer.reference_bytes)} counted"


def sentence(counted: ByteCount, resident: float, reference: float) -> str:
    """Every kind with its bytes, then what is resident and what 16 bits would take."""
    kinds = ", ".join(f"{KIND_LABELS[kind]} {mega(count)}" for kind, count in parts(counted))
    kinds = f"{kinds} MB counted" if kinds else "no bytes yet"
    return f"{kinds}; {fine(resident)} resident, measured; {fine(reference)} in 16 bits, counted"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure with its name and its origin; ``colour`` is that of a kind's mark, or empty."""

    colour: str
    name: str
    figure: str
    how: str


def lines(counted: ByteCount, resident: float, reference: float, ink: Ink) -> list[Line]:
    """Every kind that holds bytes, then all together, what is resident and what 16 bits would take."""
    kinds = [
        Line(ink.colours[kind].name(), KIND_LABELS[kind], fine(count), "counted")
        for kind, count in parts(counted)
    ]
    return [
        *kinds,
        Line("", "together", fine(counted.total), "counted"),
        Line(ink.text.name(), "resident", fine(resident), "measured"),
        Line(ink.colours["reference"].name(), "in 16 bits", fine(reference), "counted"),
    ]


def table(
    title: str, counted: ByteCount, resident: float, reference: float, ink: Ink, notes: Iterable[str] = ()
) -> str:
    """The same figures as rich text, one row each, with the kinds' colours beside their names."""
    rows = [_row(line) for line in lines(counted, resident, reference, ink)]
    head = f'<span style="font-weight:600">{escape(title)}</span>'
    return f"{head}<table cellspacing=0>{''.join(rows)}</table>{'<br>'.join(map(escape, notes))}"


def _row(line: Line) -> str:
    mark = f'<span style="color:{line.colour}">■</span>' if line.colour else ""
    cells = (mark, escape(line.name), f'<span style="font-weight:600">{line.figure}</span>', line.how)
    aligned = ("left", "left", "right", "left")
    return "<tr>" + "".join(
        f'<td align="{side}" style="padding-right:8px">{cell}</td>'
        for side, cell in zip(aligned, cells, strict=True)
    ) + "</tr>"  # fmt: skip
