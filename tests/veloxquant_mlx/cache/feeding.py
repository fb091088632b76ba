"""Rows for caches, and ways to feed them."""

from collections.abc import Iterable
from typing import Any

import mlx.core as mx
import numpy as np

from veloxquant_mlx.config import KVCacheConfig


def rows(
    tokens: int, *, seed: int = 0, batch: int = 1, heads: int = 2, key_dim: int = 64, value_dim: int = 64,
    dtype: mx.Dtype = mx.float32,
) -> tuple[mx.array, mx.array]:  # fmt: skip
    """Keys with an offset per channel, as real ones have, and values around zero: [B, H, S, D]."""
    source = np.random.default_rng(seed)
    offsets = source.normal(0, 2, (1, heads, 1, key_dim))
    keys = offsets + source.normal(0, 1, (batch, heads, tokens, key_dim))
    values = source.normal(0, 1, (batch, heads, tokens, value_dim))
    return mx.array(keys.astype(np.float32)).astype(dtype), mx.array(values.astype(np.float32)).astype(dtype)


def skvq(**values: Any) -> Any:
    """An empty SKVQ cache with a window of 16 unless told otherwise."""
    return KVCacheConfig(method="skvq", **{"skvq_window": 16, **values}).make_cache(5)


def feed(cache: Any, keys: mx.array, values: mx.array, sizes: Iterable[int]) -> Any:
    """Feed rows in blocks of these sizes; gives the cache back."""
    start = cache.offset
    for size in sizes:
        cache.update_and_fetch(keys[:, :, start : start + size], values[:, :, start : start + size])
        start += size
    return cache


def same(first: Any, second: Any) -> bool:
    """True when two caches hold the same arrays bit for bit."""
    ours, theirs = first.arrays(), second.arrays()
    return len(ours) == len(theirs) and all(
        a.dtype == b.dtype and bool(mx.array_equal(a, b).item()) for a, b in zip(ours, theirs, strict=True)
    )


def apart(first: mx.array, second: mx.array) -> float:
    """Largest distance of two arrays' elements."""
    return float(mx.abs(first.astype(mx.float32) - second.astype(mx.float32)).max().item())
