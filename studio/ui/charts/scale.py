"""Axis limits that stand still while data grows, ticks a person can add up, and rows worth drawing."""

import math

import numpy as np


def limit(value: float, *, base: float = 10.0) -> float:
    """Smallest axis end at or above ``value`` on a ladder of a few steps per power of ``base``.

    Steps instead of a tight fit keep the axis still between two refreshes. 1.0 for nothing.
    """
    if value <= 0:
        return 1.0
    steps = (
        (1.0, 1.25, 1.5, 1.75, 2.0) if base == 2 else (1.0, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    )
    power = base ** math.floor(math.log(value, base) + 1e-9)
    return next(step * power for step in steps if step * power >= value * (1 - 1e-12))


def decimal_ticks(end: float, most: int) -> list[float]:
    """0 and at most ``most`` rising multiples of 1, 2 or 5 times a power of ten, up to ``end``."""
    wanted = end / max(1, most)
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= wanted * (1 - 1e-9))
    return [round(i * step, 12) for i in range(math.floor(end / step + 1e-9) + 1)]


def binary_ticks(end: float, most: int, start: float = 0.0) -> list[int]:
    """Rising multiples of a power of two from ``start`` to ``end``, at most ``most`` and one."""
    step = max(1, 2 ** math.ceil(math.log2(max(1.0, (end - start) / max(1, most)))))
    return list(range(math.ceil(start / step) * step, math.floor(end) + 1, step))


def tick_words(value: float, step: float) -> str:
    """A tick with thousands separators and just the decimals its step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return f"{value:,.{decimals}f}"


def worth_drawing(heights: np.ndarray, width: int) -> np.ndarray:
    """Indices of the rows that decide what a curve of ``width`` pixels looks like, rising.

    Of every block of rows the highest and the lowest are kept, and the first and last row of all, so
    that peaks survive. Blocks are a power of two long and start at row 0: rows that stay also keep their
    block while more rows come.
    """
    rows = len(heights)
    if rows <= 2 * max(1, width):
        return np.arange(rows)
    block = 2 ** math.ceil(math.log2(rows / width))
    whole = rows // block * block
    blocks = heights[:whole].reshape(-1, block)
    starts = np.arange(0, whole, block)
    picked = [np.array([0, rows - 1]), starts + blocks.argmax(axis=1), starts + blocks.argmin(axis=1)]
    if whole < rows:
        rest = heights[whole:]
        picked.append(whole + np.array([rest.argmax(), rest.argmin()]))
    return np.unique(np.concatenate(picked))
