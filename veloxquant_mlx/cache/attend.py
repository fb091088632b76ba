"""Attention over a compressed slot: one query row straight on the codes, more on decoded rows."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

import mlx.core as mx

if TYPE_CHECKING:
    from .side import Side

_SPLIT_FROM = 2048
"""Coded rows from which a CPU shares a step between two streams."""

_second_stream = mx.new_thread_local_stream(mx.cpu)


class Reader(Protocol):
    """Attention straight on a store of rows; queries, sums and rows in the space of its codes."""

    def scores(self, queries: mx.array, start: int, end: int) -> mx.array:
        """Products of queries [B, H, R, D] with rows ``start`` to ``end``, [B, H, R, end - start]."""

    def weighted(self, weights: mx.array, start: int, end: int) -> mx.array:
        """Sums of rows ``start`` to ``end`` under weights [B, H, R, end - start], [B, H, R, D]."""


class _Part(NamedTuple):
    """Attention over some of the rows, not yet divided: to be merged with the others."""

    peak: mx.array
    """Largest score, [B, H, R, 1]."""
    weight: mx.array
    """Sum of exp(score - peak), [B, H, R, 1]."""
    total: mx.array
    """Rows summed under exp(score - peak), [B, H, R, Dv]."""


def attend(
    keys: "Side", values: "Side", queries: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array:
    """Attention of queries [B, Hq, L, D] over all rows of two sides, [B, Hq, L, Dv]."""
    batch, query_heads, length, dim = queries.shape
    heads = keys.shape[1] if keys.shape else query_heads
    # The query heads of one KV head become rows, so that codes are never broadcast.
    grouped = queries.reshape(batch, heads, query_heads // heads * length, dim)
    if length == 1 and mask is None and keys.coded:
        out = _on_codes(keys, values, grouped * scale)
        if out is not None:
            return out.astype(queries.dtype).reshape(batch, query_heads, 1, -1)
    out = mx.fast.scaled_dot_product_attention(
        keys.into_code_space(grouped).reshape(queries.shape),
        keys.rows_in_code_space(queries.dtype),
        values.rows_in_code_space(queries.dtype),
        scale=scale,
        mask=mask,
    )
    grouped = out.reshape(batch, heads, query_heads // heads * length, -1)
    return values.out_of_code_space(grouped).reshape(out.shape)


def _on_codes(keys: "Side", values: "Side", queries: mx.array) -> mx.array | None:
    """Scaled queries [B, H, R, D] over codes and exact rows under one softmax, [B, H, R, Dv].

    None where a side has no reader.
    """
    if queries.dtype == mx.bfloat16:
        # bfloat16 would round the float16 windows that the codes are decoded with.
        queries = queries.astype(mx.float32)
    key_reader, value_reader = keys.reader(queries.dtype), values.reader(queries.dtype)
    if key_reader is None or value_reader is None:
        return None
    coded, count = keys.into_code_space(queries), keys.coded
    if mx.default_device() == mx.cpu and count >= _SPLIT_FROM:
        # A CPU stream works on one core: the older half of the codes goes to another one.
        with mx.stream(_second_stream):
            older = _over_codes(key_reader, value_reader, coded, 0, count // 2)
        codes = _merged(older, _over_codes(key_reader, value_reader, coded, count // 2, count))
        codes = codes._replace(total=values.out_of_code_space(codes.total))
        whole = _merged(codes, _over_exact(keys, values, queries))
        return whole.total / whole.weight
    on_exact = queries @ keys.exact_rows(queries.dtype).swapaxes(-1, -2)
    scores = mx.concatenate([key_reader.scores(coded, 0, count), on_exact], axis=-1)
    weights = mx.softmax(scores, axis=-1, precise=True)
    from_codes = values.out_of_code_space(value_reader.weighted(weights[..., :count], 0, count))
    return from_codes + weights[..., count:] @ values.exact_rows(queries.dtype)


def _over_codes(keys: Reader, values: Reader, queries: mx.array, start: int, end: int) -> _Part:
    """Codes of rows ``start`` to ``end``; queries and total in code space."""
    peak, weights = _weights(keys.scores(queries, start, end))
    return _Part(peak, weights.sum(axis=-1, keepdims=True), values.weighted(weights, start, end))


def _over_exact(keys: "Side", values: "Side", queries: mx.array) -> _Part:
    """Sinks and tail, of which there is at least the row just added."""
    peak, weights = _weights(queries @ keys.exact_rows(queries.dtype).swapaxes(-1, -2))
    total = weights @ values.exact_rows(queries.dtype)
    return _Part(peak, weights.sum(axis=-1, keepdims=True), total)


def _weights(scores: mx.array) -> tuple[mx.array, mx.array]:
    peak = scores.max(axis=-1, keepdims=True)
    return peak, mx.exp(scores - peak)


def _merged(first: _Part, other: _Part) -> _Part:
    """Two parts as one, each brought to the larger peak."""
    peak = mx.maximum(first.peak, other.peak)
    mine, theirs = mx.exp(first.peak - peak), mx.exp(other.peak - peak)
    return _Part(peak, first.weight * mine + other.weight * theirs, first.total * mine + other.total * theirs)
