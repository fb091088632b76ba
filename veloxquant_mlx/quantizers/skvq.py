"""SKVQ's array functions: channel order, clipped group quantization, decoding.

After "SKVQ: Sliding-window Key and Value Cache Quantization for Large Language Models" (Duanmu et
al., COLM 2024, arXiv:2405.06219), adapted: the channel order comes from the first flushed chunk
instead of a calibration corpus, and it is applied to the rows instead of fused into weights.
A code ``q`` stands for ``lo + scale * q`` with ``lo`` and ``scale`` rounded to the 16 bits they are
stored in *before* the code is chosen, so what is stored decodes to exactly what was measured.
"""

from typing import NamedTuple

import mlx.core as mx

FLOAT16_MAX = 65504.0


class GroupCodes(NamedTuple):
    """Codes with their group parameters."""

    codes: mx.array
    """uint8, [..., D]."""
    scale: mx.array
    """float16, [..., ceil(D / group)]."""
    lo: mx.array
    """float16, [..., ceil(D / group)]."""


def clip_grid(bits: int) -> tuple[float, ...]:
    """Window factors that the clip search tries; few bits gain from far narrower windows."""
    if bits <= 2:
        return (1.0, 0.9, 0.8, 0.72, 0.65, 0.58, 0.5)
    if bits == 3:
        return (1.0, 0.92, 0.84, 0.76, 0.68, 0.5)
    return (1.0, 0.92, 0.84, 0.5) if bits <= 5 else (1.0, 0.5)


def encode(rows: mx.array, bits: int, group: int, alphas: tuple[float, ...]) -> GroupCodes:
    """Quantize each row in groups along its channels.

    The window of a group is shrunk toward its middle by the factor of ``alphas`` with the least
    squared error. One bit uses the mean plus and minus the mean deviation instead (end points are
    worse there than dropping the channel). A ragged last group is a group of its own size.

    Args:
        rows: float, [..., D], finite.
        bits: 1 to 8.
        group: channels that share a window.
        alphas: window factors to choose from, one of them when nothing is searched.
    """
    size = rows.shape[-1]
    ragged = size % group
    if ragged and size > group:
        parts = (
            encode(rows[..., : size - ragged], bits, group, alphas),
            encode(rows[..., size - ragged :], bits, ragged, alphas),
        )
        return GroupCodes(*(mx.concatenate(pair, axis=-1) for pair in zip(*parts, strict=True)))
    group = min(group, size)
    grouped = rows.astype(mx.float32).reshape(*rows.shape[:-1], size // group, group)  # [..., G, g]
    if bits == 1:
        mean = grouped.mean(axis=-1, keepdims=True)
        deviation = mx.abs(grouped - mean).mean(axis=-1, keepdims=True)
        codes, scale, lo = _round(grouped, mean - deviation, 2 * deviation, 1)
    else:
        codes, scale, lo = _search(grouped, bits, alphas)
    return GroupCodes(
        codes.astype(mx.uint8).reshape(rows.shape),
        scale.squeeze(-1).astype(mx.float16),
        lo.squeeze(-1).astype(mx.float16),
    )


def _search(grouped: mx.array, bits: int, alphas: tuple[float, ...]) -> tuple[mx.array, mx.array, mx.array]:
    """Codes, scale and lo of the window factor with the least squared error, per group."""
    levels = (1 << bits) - 1
    low = grouped.min(axis=-1, keepdims=True)
    high = grouped.max(axis=-1, keepdims=True)
    middle, half = (low + high) / 2, (high - low) / 2
    best_alpha, best_error = None, None
    if len(alphas) > 1:
        for alpha in alphas:
            codes, scale, lo = _round(grouped, middle - alpha * half, (2 * alpha / levels) * half, bits)
            error = mx.square(codes * scale + (lo - grouped)).sum(axis=-1, keepdims=True)
            if best_error is None:
                best_alpha, best_error = mx.full(error.shape, alpha), error
            else:
                better = error < best_error
                best_alpha = mx.where(better, alpha, best_alpha)
                best_error = mx.minimum(error, best_error)
    chosen = alphas[0] if best_alpha is None else best_alpha
    return _round(grouped, middle - chosen * half, (2 / levels) * chosen * half, bits)


def _round(
    grouped: mx.array, lo: mx.array, scale: mx.array, bits: int
) -> tuple[mx.array, mx.array, mx.array]:
    """Store lo and scale in 16 bits, then take the nearest code; all float32."""
    lo = stored(lo)
    scale = stored(scale)
    # A constant group has scale 0: its codes are 0 and lo carries the value.
    inverse = mx.where(scale > 0, 1 / mx.maximum(scale, 1e-30), 0.0)
    codes = mx.clip(mx.round((grouped - lo) * inverse), 0, (1 << bits) - 1)
    return codes, scale, lo


def stored(values: mx.array) -> mx.array:
    """``values`` as float16 holds them, in float32; clamped to its range, never inf."""
    return mx.clip(values, -FLOAT16_MAX, FLOAT16_MAX).astype(mx.float16).astype(mx.float32)


def decode(group_codes: GroupCodes, group: int, dtype: mx.Dtype) -> mx.array:
    """Rows that the codes stand for, [..., D] in ``dtype``."""
    codes, scale, lo = group_codes
    size = codes.shape[-1]
    scale, lo = (mx.repeat(p.astype(dtype), group, axis=-1)[..., :size] for p in (scale, lo))
    return codes.astype(dtype) * scale + lo


def channel_order(rows: mx.array) -> mx.array:
    """Order of channels that puts alike ones into the same group.

    Channels are sorted by their mean over the chunk: what spoils a row's group window is the
    distance between the channels' offsets, which hold from token to token.

    Args:
        rows: float, [B, H, S, D], the first flushed chunk.

    Returns:
        int32, [H, D]; position -> channel.
    """
    return mx.argsort(rows.astype(mx.float32).mean(axis=(0, 2)), axis=-1).astype(mx.int32)


def hadamard(size: int) -> mx.array | None:
    """Normalised Hadamard matrix, float32 [size, size], or None where the size allows none."""
    odd = size
    while odd % 2 == 0:
        odd //= 2
    if odd not in (1, 3, 5, 7) or (odd > 1 and size % (4 * odd)):
        return None
    return mx.hadamard_transform(mx.eye(size), scale=size**-0.5)
