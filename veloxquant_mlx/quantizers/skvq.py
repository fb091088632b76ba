"""SKVQ's array functions: channel order, clipped group windows, codes.

After "SKVQ: Sliding-window Key and Value Cache Quantization for Large Language Models" (Duanmu et
al., COLM 2024, arXiv:2405.06219), adapted: the channel order comes from the first flushed chunk
instead of a calibration corpus, and it is applied to the rows instead of fused into weights.

A code ``q`` stands for ``lo + scale * q``. The order of work keeps that true to the last bit: find a
window, round it to what will be stored, and only then choose the codes.
"""

from functools import lru_cache
from typing import NamedTuple

import mlx.core as mx

from ..errors import QuantizerConfigError

FLOAT16_MAX = 65504.0

_BEST_FACTOR = {2: 0.65, 3: 0.85, 4: 0.95}
"""Window factor with the least squared error for a bell-shaped group of 64; 1.0 from 5 bits on."""


class Window(NamedTuple):
    """Lowest value and step of each group, float32, [..., ceil(D / group)]."""

    lo: mx.array
    scale: mx.array


def clip_grid(bits: int, *, bell_shaped: bool) -> tuple[float, ...]:
    """Window factors a clip search starts from.

    A rotated row is bell-shaped in every group, so one factor is known to be near the best; any other
    row gets the full range, half of it, and the factor between.
    """
    best = _BEST_FACTOR.get(bits, 1.0)
    return (best,) if bell_shaped else tuple(dict.fromkeys((1.0, best, 0.5)))


def find_windows(
    rows: mx.array, bits: int, group: int, alphas: tuple[float, ...], refinements: int
) -> Window:
    """A window per row and group of channels.

    Each window is the group's range shrunk toward its middle by the factor of ``alphas`` with the
    least squared error, then moved ``refinements`` times to the least-squares line through its own
    codes. One bit uses the mean plus and minus the mean deviation instead (end points are worse there
    than dropping the channel). A ragged last group is a group of its own size.

    Args:
        rows: float32, [..., D], finite.
        bits: 1 to 8.
    """
    size = rows.shape[-1]
    ragged = size % group
    if ragged and size > group:
        parts = (
            find_windows(rows[..., : size - ragged], bits, group, alphas, refinements),
            find_windows(rows[..., size - ragged :], bits, ragged, alphas, refinements),
        )
        return Window(*(mx.concatenate(list(pair), axis=-1) for pair in zip(*parts, strict=True)))
    group = min(group, size)
    grouped = rows.reshape(*rows.shape[:-1], size // group, group)  # [..., G, g]
    if bits == 1:
        mean = grouped.mean(axis=-1)
        deviation = mx.abs(grouped - mean[..., None]).mean(axis=-1)
        return Window(mean - deviation, 2 * deviation)
    window = _clipped(grouped, bits, alphas)
    for _ in range(refinements):
        window = _fitted(grouped, window, bits)
    return window


def _clipped(grouped: mx.array, bits: int, alphas: tuple[float, ...]) -> Window:
    """The group's range shrunk by the best factor of ``alphas``."""
    levels = (1 << bits) - 1
    low, high = grouped.min(axis=-1), grouped.max(axis=-1)
    middle, half = (low + high) / 2, (high - low) / 2
    first, *others = (Window(middle - a * half, (2 * a / levels) * half) for a in alphas)
    if not others:
        return first
    best, least = first, _error(grouped, first, bits)
    for window in others:
        error = _error(grouped, window, bits)
        better = error < least
        best = Window(*(mx.where(better, new, old) for new, old in zip(window, best, strict=True)))
        least = mx.minimum(error, least)
    return best


def _error(grouped: mx.array, window: Window, bits: int) -> mx.array:
    """Squared error of each group under a window, [..., G]."""
    codes = _codes(grouped, window, bits)
    lo, scale = (part[..., None] for part in window)
    return mx.square(codes * scale + (lo - grouped)).sum(axis=-1)


def _fitted(grouped: mx.array, window: Window, bits: int) -> Window:
    """The window whose line through the present codes has the least squared error."""
    codes = _codes(grouped, window, bits)
    # A product with a column is several times faster on a CPU than a sum along the last axis.
    share = mx.full((grouped.shape[-1], 1), 1 / grouped.shape[-1])
    mean_code, mean, square, product = (
        (part @ share).squeeze(-1) for part in (codes, grouped, mx.square(codes), codes * grouped)
    )
    spread = square - mx.square(mean_code)
    together = product - mean_code * mean
    # All codes alike leave the slope open: such a group keeps its window.
    scale = mx.where(spread > 1e-6, together / mx.maximum(spread, 1e-6), window.scale)
    lo = mx.where(spread > 1e-6, mean - scale * mean_code, window.lo)
    return Window(lo, scale)


def _codes(grouped: mx.array, window: Window, bits: int) -> mx.array:
    """Nearest code of every element, float32, [..., G, g]; 0 where a group is constant."""
    lo, scale = window
    inverse = mx.where(scale > 0, 1 / mx.maximum(scale, 1e-30), 0.0)
    return mx.clip(mx.round((grouped - lo[..., None]) * inverse[..., None]), 0, (1 << bits) - 1)


def assign(rows: mx.array, window: Window, bits: int, group: int) -> mx.array:
    """Nearest codes under windows as they are stored, uint8 [..., D].

    Args:
        rows: float32, [..., D]. window: float32, [..., ceil(D / group)].
    """
    size = rows.shape[-1]
    if size % group and size > group:
        each = Window(*(mx.repeat(part, group, axis=-1)[..., :size] for part in window))  # [..., D]
        codes = _codes(rows[..., None], each, bits)
    else:
        codes = _codes(rows.reshape(*rows.shape[:-1], -1, min(group, size)), window, bits)
    return codes.astype(mx.uint8).reshape(rows.shape)


def decode(codes: mx.array, window: Window, group: int) -> mx.array:
    """Rows that codes stand for, [..., D] in the dtype of the window."""
    size = codes.shape[-1]
    group = min(group, size)
    values = codes.astype(window.lo.dtype)
    if size % group:
        lo, scale = (mx.repeat(part, group, axis=-1)[..., :size] for part in window)
        return values * scale + lo
    lo, scale = (part[..., None] for part in window)
    return (values.reshape(*codes.shape[:-1], -1, group) * scale + lo).reshape(codes.shape)


def to_float16(values: mx.array) -> mx.array:
    """``values`` in float16, clamped to its range, never inf."""
    return mx.clip(values, -FLOAT16_MAX, FLOAT16_MAX).astype(mx.float16)


def channel_order(rows: mx.array, *, centred: bool = False) -> mx.array:
    """Order of channels that puts alike ones into the same group.

    Channels are sorted by their mean over the chunk: what spoils a row's group window is the
    distance between the channels' offsets, which hold from token to token. Where the mean is taken
    out before quantizing they are sorted by their spread around it.

    Args:
        rows: float, [B, H, S, D], the first flushed chunk. centred: the mean will be taken out.

    Returns:
        int32, [H, D]; position -> channel.
    """
    rows = rows.astype(mx.float32)
    measure = rows.var(axis=(0, 2)) if centred else rows.mean(axis=(0, 2))
    return mx.argsort(measure, axis=-1).astype(mx.int32)


def hadamard(size: int) -> mx.array | None:
    """Normalised Hadamard matrix, float32 [size, size], or None where the size allows none."""
    odd = size
    while odd % 2 == 0:
        odd //= 2
    if odd not in (1, 3, 5, 7) or (odd > 1 and size % (4 * odd)):
        return None
    return mx.hadamard_transform(mx.eye(size), scale=size**-0.5)


@lru_cache(maxsize=16)
def rotation(size: int) -> mx.array:
    """The shared Hadamard matrix, float32 [size, size]; raises QuantizerConfigError where none exists."""
    matrix = hadamard(size)
    if matrix is None:
        raise QuantizerConfigError(
            "skvq_rotate", f"skvq_rotate cannot rotate heads of {size} channels; switch it off."
        )
    mx.eval(matrix)
    return matrix
