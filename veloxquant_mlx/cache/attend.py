"""Attention over a compressed slot: codes and exact rows apart under one softmax, or all rows decoded."""

import math
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING

import mlx.core as mx

from .readers import on_cpu

if TYPE_CHECKING:
    from .side import Side

Mask = mx.array | str | None
"""As mlx_lm's attention takes it: None, "causal", or an array that broadcasts to [B, Hq, L, rows]."""

_LONGEST_IN_PARTS = 256
"""Queries of a block up to which a CPU takes the faster way: it holds three copies of all scores at its
peak, the fused kernel one, and for long blocks that would be more than the compressed rows save."""


def attend(keys: "Side", values: "Side", queries: mx.array, scale: float, mask: Mask) -> mx.array:
    """Attention of queries [B, Hq, L, D] over all rows of two sides, [B, Hq, L, Dv]."""
    batch, query_heads, length, dim = queries.shape
    heads = keys.shape[1] if keys.shape else query_heads
    # The query heads of one KV head become rows, so that codes are never broadcast.
    grouped = queries.reshape(batch, heads, query_heads // heads * length, dim)
    in_parts = length <= _LONGEST_IN_PARTS if on_cpu() else length == 1 and mask is None and keys.coded
    if in_parts:
        out = _in_parts(keys, values, grouped, length, scale, mask)
        return out.astype(queries.dtype).reshape(batch, query_heads, length, -1)
    out = mx.fast.scaled_dot_product_attention(
        keys.into_code_space(grouped).reshape(queries.shape),
        keys.rows_in_code_space(queries.dtype),
        values.rows_in_code_space(queries.dtype),
        scale=scale,
        mask=mask,
    )
    grouped = out.reshape(batch, heads, query_heads // heads * length, -1)
    return values.out_of_code_space(grouped).reshape(out.shape)


def _in_parts(
    keys: "Side", values: "Side", queries: mx.array, length: int, scale: float, mask: Mask
) -> mx.array:
    """Queries [B, H, R * L, D] over codes and exact rows under one softmax, [B, H, R * L, Dv]."""
    # A CPU computes 16 bits slower and worse; bfloat16 would round the windows of the codes.
    dtype = mx.float32 if on_cpu() or queries.dtype == mx.bfloat16 else queries.dtype
    queries = queries.astype(dtype) * scale
    of_exact, of_codes = (None, None) if mask is None else _masks_of_parts(keys, length, mask)
    scores = []
    reader = keys.reader(dtype, queries.shape[2]) if keys.coded else None
    if keys.exact_count:
        on_exact = queries @ keys.exact_rows(dtype).swapaxes(-1, -2)
        # The softmax only knows differences, and there are far fewer exact rows than codes.
        shared = None if reader is None else reader.shared(queries)
        scores.append(_masked(on_exact if shared is None else on_exact - shared, of_exact, length))
    if reader is not None:
        scores.append(_masked(reader.scores(queries), of_codes, length))
    weights, total = _softmax(scores)
    sums = []
    if keys.coded:
        sums.append(values.reader(dtype, queries.shape[2]).weighted(weights.pop()))
    if keys.exact_count:
        sums.append(weights.pop() @ values.exact_rows(dtype))
    return reduce(mx.add, sums) / total


def _softmax(parts: list[mx.array]) -> tuple[list[mx.array], mx.array | float]:
    """Numerators of the softmax over the last axis of all parts together, and their sum."""
    if not on_cpu():
        joint = mx.softmax(mx.concatenate(parts, axis=-1), axis=-1, precise=True)
        ends = list(accumulate(part.shape[-1] for part in parts[:-1]))
        return list(mx.split(joint, ends, axis=-1)), 1.0
    peak = reduce(mx.maximum, [part.max(axis=-1, keepdims=True) for part in parts])
    # mlx's exp takes three times as long on a CPU as a power of the same value.
    powers = [mx.power(math.e, part - peak) for part in parts]
    return powers, reduce(mx.add, [power.sum(axis=-1, keepdims=True) for power in powers])


def _masks_of_parts(keys: "Side", length: int, mask: mx.array | str) -> tuple[mx.array, mx.array | None]:
    """The columns of a mask for exact rows, and those for codes; None where every query sees all of them."""
    start, end = keys.sink_count, keys.sink_count + keys.coded
    codes_are_seen = False
    if isinstance(mask, str):
        column = mx.arange(keys.count)
        codes_are_seen = end <= keys.count - length
        mask = column <= column[-length:, None]
    of_exact = mx.concatenate([mask[..., :start], mask[..., end:]], axis=-1)
    return of_exact, None if codes_are_seen else mask[..., start:end]


def _masked(scores: mx.array, mask: mx.array | None, length: int) -> mx.array:
    """Scores [B, H, R * L, n] under a mask that broadcasts to [B, H * R, L, n]."""
    if mask is None:
        return scores
    by_head = scores.reshape(scores.shape[0], -1, length, scores.shape[-1])
    if mask.dtype == mx.bool_:
        by_head = mx.where(mask, by_head, mx.finfo(scores.dtype).min)
    else:
        by_head = by_head + mask
    return by_head.reshape(scores.shape)
