"""Charts as SVG: elements with classes for colours, so that a page or a drawing dresses them as it likes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from ..telemetry import BYTE_KINDS, KIND_LABELS
from .words import clean, megabytes

WIDTH, HEIGHT = 760, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 50, 34
_POINTS = 360
"""Most places at which a curve is drawn."""
STACK = BYTE_KINDS
"""Kinds from the bottom of a stack to its top."""


class _Plot:
    """A frame with two axes from 0; maps values to pixels."""

    def __init__(self, title: str, across: float, up: float) -> None:
        self.across, self.up = max(across, 1e-9), max(up, 1e-9)
        self.svg = Element(
            "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img",
            width=str(WIDTH), height=str(HEIGHT),
        )  # fmt: skip
        self.svg.set("aria-label", clean(title))
        self.svg.set("font-size", "11")
        self.svg.set("font-family", "system-ui, -apple-system, Segoe UI, Roboto, sans-serif")

    def x(self, value: float) -> float:
        return _LEFT + value / self.across * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self.up * (HEIGHT - _TOP - _BOTTOM)

    def words(self, x: float, y: float, said: str, *, anchor: str = "start", dress: str = "t-muted") -> None:
        """Text at a place."""
        made = SubElement(self.svg, "text", {"x": _n(x), "y": _n(y), "text-anchor": anchor, "class": dress})
        made.text = clean(said)

    def rows(self, ticks: Sequence[float], unit: str) -> None:
        """Horizontal lines with their values, the unit above them."""
        for value in ticks:
            y = _n(self.y(value))
            line = {"x1": _n(_LEFT), "x2": _n(WIDTH - _RIGHT), "y1": y, "y2": y, "class": "l-line"}
            SubElement(self.svg, "line", line)
            self.words(_LEFT - 6, self.y(value) + 4, f"{value:,.10g}", anchor="end")
        self.words(_LEFT - 6, 12, unit, anchor="end")

    def path(
        self, points: Sequence[tuple[float, float]], dress: str, *, closed: bool = False, dash: str = ""
    ) -> None:
        """A line through values, or the area inside it."""
        steps = " ".join(f"{_n(self.x(a))},{_n(self.y(b))}" for a, b in points)
        told = {"d": f"M{steps}{'Z' if closed else ''}", "class": dress}
        if not closed:
            told |= {"stroke-width": "1.5", "stroke-linejoin": "round"}
        if dash:
            told["stroke-dasharray"] = dash
        SubElement(self.svg, "path", told)

    def legend(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """(shape, class, words) of each above the plot, in as many lines as they need, the last just above:
        ``box``, ``line`` or ``dash``."""
        # Six pixels a letter at this size: a little too wide rather than too narrow.
        widths = [(13 if shape == "box" else 19) + 6.2 * len(said) + 12 for shape, _, said in entries]
        x, line, places = float(_LEFT), 0, []
        for wide in widths:
            if x + wide > WIDTH and x > _LEFT:
                x, line = float(_LEFT), line + 1
            places.append((x, line))
            x += wide
        for (shape, dress, said), (left, line) in zip(entries, places, strict=True):
            y = 12.0 + 15 * line
            if shape == "box":
                box = {"x": _n(left), "y": _n(y - 8), "width": "9", "height": "9", "rx": "2", "class": dress}
                SubElement(self.svg, "rect", box)
            else:
                mark = {"x1": _n(left), "x2": _n(left + 14), "y1": _n(y - 3), "y2": _n(y - 3), "class": dress}
                mark |= {"stroke-width": "1.5"} | ({"stroke-dasharray": "4 3"} if shape == "dash" else {})
                SubElement(self.svg, "line", mark)
            self.words(left + (13 if shape == "box" else 19), y, said)

    def done(self) -> str:
        """The element as text."""
        return tostring(self.svg, encoding="unicode")


def memory_chart(history: Mapping[str, Sequence[float | None]]) -> str | None:
    """Bytes of the whole cache by kind over the tokens, under the 16-bit line; None without rows."""
    tokens = np.array(history["tokens"], np.float64)
    if len(tokens) < 2:
        return None
    stacked = np.cumsum([np.array(history[kind], np.float64) for kind in STACK], axis=0) / 1e6
    resident = np.array(history["resident"], np.float64) / 1e6
    reference = np.array(history["reference"], np.float64) / 1e6
    at = _places(np.vstack([stacked[-1], resident]))
    end, ticks = _scale(max(stacked[-1].max(), resident.max(), reference.max()))
    plot = _Plot("Bytes of the cache over tokens", tokens[-1], end)
    plot.rows(ticks, "MB")
    below = np.zeros(len(tokens))
    for kind, above in zip(STACK, stacked, strict=True):
        if (above > below).any():
            up = list(zip(tokens[at], above[at], strict=True))
            down = list(zip(tokens[at][::-1], below[at][::-1], strict=True))
            plot.path([*up, *down], f"k-{kind}", closed=True)
        below = above
    plot.path(list(zip(tokens[at], reference[at], strict=True)), "l-reference", dash="5 4")
    plot.path(list(zip(tokens[at], resident[at], strict=True)), "l-text")
    _token_axis(plot, float(tokens[-1]))
    shown = [kind for kind in STACK if any(history[kind])]
    plot.legend(
        [*_kinds(shown), ("line", "l-text", "resident, measured"), ("dash", "l-reference", "16-bit, counted")]
    )
    return plot.done()


def slots_chart(slots: Sequence[Mapping[str, Any]]) -> str | None:
    """Bytes of every slot by kind against what it would take at 16 bits; None where nothing is held."""
    totals = [slot["counted_bytes"]["total"] for slot in slots]
    references = [slot["reference_16_bit_bytes_counted"] for slot in slots]
    if not any(totals):
        return None
    end, ticks = _scale(max(*totals, *references) / 1e6)
    plot = _Plot("Bytes of every slot", len(slots), end)
    plot.rows(ticks, "MB")
    pitch = plot.x(1) - plot.x(0)
    wide = min(44.0, pitch * 0.78)
    for index, slot in enumerate(slots):
        left = plot.x(index + 0.5) - wide / 2
        group = SubElement(plot.svg, "g")
        counted = slot["counted_bytes"]
        SubElement(group, "title").text = (
            f"Slot {slot['slot']}: {megabytes(counted['total'])} counted, "
            f"{megabytes(references[index])} at 16 bits"
        )
        base = 0.0
        for kind in STACK:
            if counted[kind]:
                top = base + counted[kind] / 1e6
                _bar(group, plot, left, wide, base, top, f"k-{kind}")
                base = top
        y = _n(plot.y(references[index] / 1e6))
        outline = {"x1": _n(left), "x2": _n(left + wide), "y1": y, "y2": y, "class": "l-reference"}
        SubElement(group, "line", outline | {"stroke-width": "1.5", "stroke-dasharray": "3 2"})
    _slot_axis(plot, [slot["slot"] for slot in slots])
    shown = [kind for kind in STACK if any(slot["counted_bytes"][kind] for slot in slots)]
    plot.legend([*_kinds(shown), ("dash", "l-reference", "16-bit, counted")])
    return plot.done()


def kl_chart(values: Sequence[float | None], frontier: float | None = None) -> str | None:
    """KL per token of the replies; None without any."""
    known = [(index, value) for index, value in enumerate(values) if value is not None]
    if not known:
        return None
    end, ticks = _scale(max(value for _, value in known))
    plot = _Plot("KL per token against the uncompressed cache", max(1, len(values)), end)
    plot.rows(ticks, "nats")
    block = max(1, math.ceil(len(known) / _POINTS))
    for first in range(0, len(known), block):
        # The highest of each stretch: an outlier must not vanish between two places.
        index, value = max(known[first : first + block], key=lambda pair: pair[1])
        x = _n(plot.x(index + 0.5))
        stem = {"x1": x, "x2": x, "y1": _n(plot.y(0)), "y2": _n(plot.y(value)), "class": "l-accent"}
        SubElement(plot.svg, "line", stem)
    _token_axis(plot, len(values))
    return plot.done()


def errors_chart(slots: Sequence[Mapping[str, Any]]) -> str | None:
    """Error of every slot's attention output, in percent; None where no slot has one."""
    known = [slot for slot in slots if slot["attention_error"] is not None]
    if not known:
        return None
    end, ticks = _scale(100 * max(slot["attention_error"] for slot in known))
    plot = _Plot("Error of every slot's attention output", len(known), end)
    plot.rows(ticks, "%")
    wide = min(44.0, (plot.x(1) - plot.x(0)) * 0.78)
    for index, slot in enumerate(known):
        group = SubElement(plot.svg, "g")
        SubElement(group, "title").text = f"Slot {slot['slot']}: {100 * slot['attention_error']:.2f} %"
        _bar(group, plot, plot.x(index + 0.5) - wide / 2, wide, 0, 100 * slot["attention_error"], "k-codes")
    _slot_axis(plot, [slot["slot"] for slot in known])
    return plot.done()


def longest_chart(rows: Sequence[Mapping[str, Any]], context: int | None) -> str | None:
    """The longest context that fits for every setting, as bars; None where nothing is known."""
    known = [row for row in rows if row["longest_context"] is not None]
    if not known:
        return None
    most = max(row["longest_context"]["tokens"] for row in known)
    made = _Rows("Longest context that fits", len(known), max(most, 1))
    for row in known:
        tokens = row["longest_context"]["tokens"]
        why = "memory" if row["longest_context"]["by_memory"] else "the model's own"
        dress = "k-codes" if row["compressed_slots"] else "k-reference"
        made.row(row["method"], [(tokens, dress)], f"{tokens:,} ({why})" if tokens else "does not fit")
    return made.done("tokens" if context is None else f"tokens; the model's own context is {context:,}")


def need_chart(rows: Sequence[Mapping[str, Any]], tokens: int) -> str | None:
    """What every setting takes together at one number of tokens; None where nothing is known."""
    known = [row for row in rows if row.get("need_bytes")]
    if not known:
        return None
    made = _Rows("Memory setting by setting", len(known), max(row["need_bytes"]["total"] for row in known))
    for row in known:
        need = row["need_bytes"]
        parts = [(need[part], dress) for part, dress, _ in _NEED]
        made.row(row["method"], parts, megabytes(need["total"]))
    made.plot.legend([("box", dress, words) for _, dress, words in _NEED])
    return made.done(f"bytes together at {tokens:,} tokens")


_NEED = (
    ("weights", "k-foreign", "weights"),
    ("working", "k-exact", "running pass"),
    ("cache", "k-codes", "cache"),
)
"""Part of a need, its colour and its words, from left to right."""


class _Rows:
    """Bars that lie, each with its name at the left and its figure at the right."""

    _HIGH, _LEFT, _RIGHT = 18, 190.0, 150.0

    def __init__(self, title: str, count: int, most: float) -> None:
        self.plot, self._most, self._next = _Plot(title, 1, 1), most, 22.0
        self._height = count * self._HIGH + 22 + 24
        self.plot.svg.set("viewBox", f"0 0 {WIDTH} {self._height}")
        self.plot.svg.set("height", str(self._height))

    def row(self, name: str, parts: Sequence[tuple[float, str]], said: str) -> None:
        """One more bar, of (value, class) from left to right."""
        y, x = self._next, self._LEFT
        self._next += self._HIGH
        self.plot.words(self._LEFT - 8, y + 11, name, anchor="end", dress="t-text")
        for value, dress in parts:
            wide = (WIDTH - self._LEFT - self._RIGHT) * value / self._most
            box = {"x": _n(x), "y": _n(y), "width": _n(max(0.5, wide)), "height": "13", "class": dress}
            SubElement(self.plot.svg, "rect", box)
            x += wide
        self.plot.words(x + 6, y + 11, said)

    def done(self, unit: str) -> str:
        """The element as text, with the unit below."""
        self.plot.words(self._LEFT, self._height - 6, unit)
        return self.plot.done()


def _kinds(shown: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return (("box", f"k-{kind}", KIND_LABELS[kind]) for kind in shown)


def _bar(group: Element, plot: _Plot, left: float, wide: float, base: float, top: float, dress: str) -> None:
    high = plot.y(base) - plot.y(top)
    box = {"x": _n(left), "y": _n(plot.y(top)), "width": _n(wide), "height": _n(high), "class": dress}
    SubElement(group, "rect", box)


def _slot_axis(plot: _Plot, names: Sequence[int]) -> None:
    for index in range(0, len(names), max(1, math.ceil(len(names) / 16))):
        plot.words(plot.x(index + 0.5), HEIGHT - _BOTTOM + 16, str(names[index]), anchor="middle")
    plot.words(WIDTH - _RIGHT, HEIGHT - 4, "slot", anchor="end")


def _token_axis(plot: _Plot, end: float) -> None:
    for value in _scale(end)[1]:
        if value <= end:
            plot.words(plot.x(value), HEIGHT - _BOTTOM + 16, f"{value:,.10g}", anchor="middle")
    plot.words(WIDTH - _RIGHT, HEIGHT - 4, "tokens", anchor="end")


def _scale(highest: float) -> tuple[float, list[float]]:
    """Where an axis ends, and about five round values on it."""
    if not math.isfinite(highest) or highest <= 0:
        return 1.0, [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(highest / 4))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power * 5 >= highest)
    count = math.ceil(highest / step - 1e-9)
    return count * step, [index * step for index in range(count + 1)]


def _places(heights: np.ndarray) -> np.ndarray:
    """Rows that decide what curves look like: of every stretch the highest and lowest, and both ends."""
    count = heights.shape[1]
    if count <= _POINTS:
        return np.arange(count)
    picked = {0, count - 1}
    for stretch in np.array_split(np.arange(count), _POINTS // (2 * len(heights))):
        for curve in heights:
            picked |= {int(stretch[curve[stretch].argmax()]), int(stretch[curve[stretch].argmin()])}
    return np.array(sorted(picked))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
