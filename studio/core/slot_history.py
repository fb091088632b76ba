"""Every slot's figures at every row of a history, in little memory.

Between two flushes a figure of a slot grows by the same amount per token. So each figure is kept in
stretches: its values over the slots at the stretch's first row, and their growth per token. A new stretch
begins only where a slot departs from that. Nothing is rounded: what comes out is what went in.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from veloxquant_mlx.telemetry import BYTE_KINDS, ByteCount, CacheSnapshot, HeadBasis, LayerStats

FIXED = (*BYTE_KINDS, "resident", "reference", "tokens")
"""The figures every slot has; gauges follow them, then drift per head."""

BUDGET = 96_000_000
"""Bytes the figures may take before the distant past is thinned out."""
_FARTHEST = 1 << 24


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the rows and columns of a matrix of figures mean."""

    slots: tuple[int, ...]
    replaced: tuple[bool, ...]
    gauges: tuple[str, ...]
    drifts: tuple[int, ...]
    """Number of drift figures of each slot."""

    @property
    def width(self) -> int:
        """Figures of a slot."""
        return len(FIXED) + len(self.gauges) + max(self.drifts, default=0)


@dataclass(slots=True)
class _Figure:
    """One figure of all slots: stretch by stretch where it starts, its values there and their growth."""

    starts: list[int] = field(default_factory=list)
    bases: list[np.ndarray] = field(default_factory=list)
    slopes: list[np.ndarray | None] = field(default_factory=list)
    """None while a stretch has one row only."""

    def at(self, tokens: int) -> np.ndarray:
        """Values over the slots, NaN where a slot has no such figure."""
        place = bisect_right(self.starts, tokens) - 1
        base, slope = self.bases[place], self.slopes[place]
        return base if slope is None else base + slope * (tokens - self.starts[place])

    def take(self, tokens: int, values: np.ndarray) -> int:
        """Keep a row that does not lie on the lines so far; returns the bytes it took."""
        if self.starts and self.slopes[-1] is None:
            # The second row of a stretch decides where its lines lead.
            span = tokens - self.starts[-1]
            slope = (values - self.bases[-1]) / span
            if np.array_equal(self.bases[-1] + slope * span, values, equal_nan=True):
                # A cache grows at the same pace in every window: most stretches can share it.
                before = self.slopes[-2] if len(self.slopes) > 1 else None
                shared = before is not None and np.array_equal(before, slope, equal_nan=True)
                self.slopes[-1] = before if shared else slope
                return 0 if shared else slope.nbytes
        self.starts.append(tokens)
        self.bases.append(values.copy())
        self.slopes.append(None)
        return values.nbytes

    def cut(self, last: int) -> None:
        """Drop the stretches that start beyond a token count."""
        keep = bisect_right(self.starts, last)
        del self.starts[keep:], self.bases[keep:], self.slopes[keep:]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; None where a slot has no such figure."""
        slopes = [
            np.zeros_like(base) if slope is None else slope
            for base, slope in zip(self.bases, self.slopes, strict=True)
        ]
        return {
            "starts": list(self.starts),
            "values": [_plain(base) for base in self.bases],
            "per_token": [_plain(slope) for slope in slopes],
        }

    def drop_inside(self, gaps: np.ndarray) -> None:
        """Drop the stretches that lie wholly in a gap; ``gaps`` is [n, 2], [first, end) and rising."""
        starts = np.array(self.starts, np.float64)
        ends = np.append(starts[1:], math.inf)
        place = np.searchsorted(gaps[:, 0], starts, "right") - 1
        kept = np.nonzero((place < 0) | (ends > gaps[place, 1]))[0].tolist()
        self.starts = [self.starts[n] for n in kept]
        self.bases = [self.bases[n] for n in kept]
        self.slopes = [self.slopes[n] for n in kept]


class _Era:
    """Rows of one layout: the slots and the names of their figures stay the same."""

    def __init__(self, layout: _Layout) -> None:
        self.layout = layout
        self.figures = [_Figure() for _ in range(layout.width)]
        self.heads: list[tuple[int, tuple[tuple[HeadBasis, ...], ...]]] = []
        self._tip: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def start(self) -> int:
        """Token count of the first row."""
        return self.heads[0][0]

    def append(self, tokens: int, matrix: np.ndarray, heads: tuple[tuple[HeadBasis, ...], ...]) -> int:
        """Keep a row, [slots, figures]; returns the bytes it took."""
        if not self.heads or self.heads[-1][1] != heads:
            self.heads.append((tokens, heads))
        if self._tip is None:
            strayed = np.arange(len(self.figures))
        else:
            starts, bases, slopes = self._tip
            ahead = bases + slopes * (tokens - starts)
            # A slope that is not known yet is NaN and never hits, unless the figure itself is absent.
            hit = (ahead == matrix) | (np.isnan(bases) & np.isnan(matrix))
            strayed = np.nonzero(~hit.all(axis=0))[0]
        taken = 0
        for n in strayed.tolist():
            taken += self.figures[n].take(tokens, matrix[:, n])
        if len(strayed):
            self._look(strayed.tolist(), matrix.shape)
        return taken

    def cut(self, last: int) -> None:
        """Drop all rows beyond ``last`` tokens, of which at least one is left."""
        for figure in self.figures:
            figure.cut(last)
        self.heads = [entry for entry in self.heads if entry[0] <= last]
        self._tip = None
        self._look(list(range(len(self.figures))), (len(self.layout.slots), len(self.figures)))

    def layers(self, tokens: int) -> tuple[LayerStats, ...]:
        """The slots at the row of a token count."""
        layout, kinds, fixed = self.layout, len(BYTE_KINDS), len(FIXED)
        gauges = fixed + len(layout.gauges)
        heads = next(found for start, found in reversed(self.heads) if start <= tokens)
        rows = np.stack([figure.at(tokens) for figure in self.figures], axis=1).tolist()
        layers = []
        for place, row in enumerate(rows):
            resident, reference, held = (round(value) for value in row[kinds:fixed])
            named = zip(layout.gauges, row[fixed:gauges], strict=True)
            layers.append(
                LayerStats(
                    slot=layout.slots[place],
                    replaced=layout.replaced[place],
                    counted=ByteCount(*(round(value) for value in row[:kinds])),
                    resident_bytes=resident,
                    reference_bytes=reference,
                    tokens=held,
                    gauges={name: value for name, value in named if not math.isnan(value)},
                    heads=heads[place],
                    drift=tuple(row[gauges : gauges + layout.drifts[place]]),
                )
            )
        return tuple(layers)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; drift per head is left out."""
        layout = self.layout
        return {
            "from": self.start,
            "slots": list(layout.slots),
            "replaced": list(layout.replaced),
            "figures": {name: self.figures[n].as_dict() for n, name in enumerate(FIXED)},
            "gauges": {
                name: self.figures[n].as_dict() for n, name in enumerate(layout.gauges, start=len(FIXED))
            },
        }

    def _look(self, changed: list[int], shape: tuple[int, int]) -> None:
        """Renew what the next row is held against."""
        if self._tip is None:
            self._tip = (np.zeros(shape[1]), np.empty(shape), np.empty(shape))
        starts, bases, slopes = self._tip
        for n in changed:
            figure = self.figures[n]
            slope = figure.slopes[-1]
            starts[n], bases[:, n] = figure.starts[-1], figure.bases[-1]
            slopes[:, n] = np.nan if slope is None else slope


class SlotHistory:
    """Rows with rising token counts. Give it the rows a History keeps, in the same order."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._eras: list[_Era] = []
        self._gaps: list[tuple[int, int]] = []
        """[first, end) token counts whose rows were given up, rising."""
        self._step = 1
        """Tokens between two stretches of the distant past."""
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the figures kept (counted)."""
        return self._bytes

    def append(self, snapshot: CacheSnapshot) -> np.ndarray:
        """Keep a snapshot with more tokens than any before; returns its figures summed, [len(FIXED)]."""
        layout, matrix = _matrix(snapshot)
        if not self._eras or self._eras[-1].layout != layout:
            self._eras.append(_Era(layout))
        heads = tuple(layer.heads for layer in snapshot.layers)
        self._bytes += self._eras[-1].append(snapshot.tokens, matrix, heads)
        if self._bytes > self._budget:
            self._thin()
        totals: np.ndarray = matrix[:, : len(FIXED)].sum(axis=0)
        return totals

    def cut(self, last: int) -> None:
        """Drop all rows beyond ``last`` tokens, which is the token count of a row or below the first."""
        while self._eras and self._eras[-1].start > last:
            self._eras.pop()
        if self._eras:
            self._eras[-1].cut(last)
        self._gaps = [(first, min(end, last + 1)) for first, end in self._gaps if first <= last]
        self._weigh()

    def before_gap(self, tokens: int) -> int:
        """The same token count, or the one before the rows that were given up around it."""
        place = bisect_right(self._gaps, tokens, key=lambda gap: gap[0]) - 1
        inside = place >= 0 and tokens < self._gaps[place][1]
        return self._gaps[place][0] - 1 if inside else tokens

    def layers(self, tokens: int) -> tuple[LayerStats, ...]:
        """The slots at the row of a token count, which was kept and is in no gap."""
        return next(era for era in reversed(self._eras) if era.start <= tokens).layers(tokens)

    def as_dict(self) -> dict[str, Any]:
        """Everything kept, JSON-ready: see ``slot_history`` in the report's schema."""
        return {"eras": [era.as_dict() for era in self._eras], "gaps": [list(gap) for gap in self._gaps]}

    def _thin(self) -> None:
        """See all but the newest quarter in larger steps, until a quarter of the budget is free again."""
        while self._bytes > 0.75 * self._budget and self._step < _FARTHEST:
            self._step *= 2
            busiest = max(self._figures(), key=lambda figure: len(figure.starts))
            starts = busiest.starts[: 3 * len(busiest.starts) // 4]
            first_of_step = {start // self._step: start for start in reversed(starts)}
            dropped = [
                (start, end) for start, end in pairwise(starts) if first_of_step[start // self._step] != start
            ]
            if not dropped:
                continue
            self._gaps = _joined([*self._gaps, *dropped])
            gaps = np.array(self._gaps, np.float64).reshape(-1, 2)
            for figure in self._figures():
                figure.drop_inside(gaps)
            self._weigh()

    def _figures(self) -> Iterator[_Figure]:
        for era in self._eras:
            yield from era.figures

    def _weigh(self) -> None:
        arrays = [a for f in self._figures() for part in (f.bases, f.slopes) for a in part if a is not None]
        self._bytes = sum({id(array): array.nbytes for array in arrays}.values())


def _plain(values: Any) -> list[float | None]:
    """Whole numbers without a decimal point, NaN as None."""
    listed = [None if math.isnan(value) else value for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in listed]


def _joined(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same token counts in as few gaps as can be."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(gaps):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined


def _matrix(snapshot: CacheSnapshot) -> tuple[_Layout, np.ndarray]:
    """A snapshot's figures, [slots, figures], NaN where a slot has no such figure."""
    layers = snapshot.layers
    layout = _Layout(
        tuple(layer.slot for layer in layers),
        tuple(layer.replaced for layer in layers),
        tuple(dict.fromkeys(name for layer in layers for name in layer.gauges)),
        tuple(len(layer.drift) for layer in layers),
    )
    widest = max(layout.drifts, default=0)
    rows = []
    for layer in layers:
        c, gauges = layer.counted, layer.gauges
        row = [
            c.codes, c.parameters, c.exact, c.sinks, c.side, c.foreign,
            layer.resident_bytes, layer.reference_bytes, layer.tokens,
            *[gauges.get(name, math.nan) for name in layout.gauges],
        ]  # fmt: skip
        if widest:
            row += [*layer.drift, *[math.nan] * (widest - len(layer.drift))]
        rows.append(row)
    return layout, np.array(rows, np.float64).reshape(len(layers), layout.width)
