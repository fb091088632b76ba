"""Attention over a compressed slot: one query row straight on the codes, more on decoded rows."""

from typing import TYPE_CHECKING

import mlx.core as mx

if TYPE_CHECKING:
    from .side import Side


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
    on_exact = queries @ keys.exact_rows(queries.dtype).swapaxes(-1, -2)
    on_codes = key_reader.scores(keys.into_code_space(queries))
    weights = mx.softmax(mx.concatenate([on_codes, on_exact], axis=-1), axis=-1, precise=True)
    from_codes = values.out_of_code_space(value_reader.weighted(weights[..., : keys.coded]))
    return from_codes + weights[..., keys.coded :] @ values.exact_rows(queries.dtype)
