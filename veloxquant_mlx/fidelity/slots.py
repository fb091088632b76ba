"""Each slot by itself: the error of its attention output and its distance to the rate-distortion limit.

A fresh slot is fed the keys and values that the uncompressed run made, in the same blocks. What comes
out is this slot's own doing, free of what earlier layers got wrong.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np

from ..builder import KVCacheBuilder
from ..cache.base import CompressedKVCache
from ..cache.mixed import own_cache
from ..cache.readers import beside, on_cpu
from ..compared import SideFidelity, SlotFidelity, TellingHead
from ..config import KVCacheConfig
from ..openblas import one_thread
from ..progress import Progress
from .capture import Query
from .limit import Floats, covariance_eigenvalues, reverse_water_filling

Rows = tuple[mx.array, mx.array]
"""Keys and values of a slot, [B, H, n, D] each."""


def slot_fidelities(
    model: Any,
    config: KVCacheConfig,
    reference: Sequence[Any],
    queries: Mapping[int, Query],
    bounds: Sequence[int],
    report: Progress,
    seen: Mapping[int, mx.array] | None = None,
) -> tuple[SlotFidelity, ...]:
    """One record per slot of the model's cache list.

    Args:
        reference: the uncompressed caches after the text.
        queries: of the last block, by slot.
        bounds: where blocks begin and end, 0 first and the number of tokens last.
        seen: queries of the first tokens, by slot, for methods that learn from them.
    """
    found: list[SlotFidelity] = []
    for one in each_slot(model, config, exact_rows(reference).__getitem__, queries, bounds, seen=seen):
        found.append(one)
        report(len(found) / len(reference), f"Compared slot {len(found)} of {len(reference)}")
    return tuple(found)


def exact_rows(reference: Sequence[Any]) -> list[Rows | None]:
    """Keys and values that uncompressed caches hold, slot by slot; None where a slot has no such rows."""
    own = (own_cache(cache) or cache for cache in reference)
    return [cache.keys_and_values() if hasattr(cache, "keys_and_values") else None for cache in own]


def each_slot(
    model: Any,
    config: KVCacheConfig,
    rows: Callable[[int], Rows | None],
    queries: Mapping[int, Query],
    bounds: Sequence[int],
    *,
    seen: Mapping[int, mx.array] | None = None,
    sides: bool = True,
    order: Sequence[int] | None = None,
    outputs: dict[int, mx.array] | None = None,
) -> Iterator[SlotFidelity]:
    """The records of ``slot_fidelities`` one by one, for whoever may stop in between.

    Args:
        rows: gives a slot's exact rows when its turn comes.
        sides: False leaves out the limits of keys and values, which take most of the time.
        order: the slots wanted, in this order; None is all of them.
        outputs: what attention gives on exact rows, by slot: taken from here, and put here where it is
            missing, for whoever asks the same queries again.
    """
    outputs = {} if outputs is None else outputs
    fresh: list[Any] = KVCacheBuilder.for_model(model, config)
    order = range(len(fresh)) if order is None else order
    # Slots are independent: two at a time are all the memory this takes.
    for slots in (order[at : at + 2] for at in range(0, len(order), 2)):
        runs: dict[int, _Run] = {}
        for slot in slots:
            cache, fresh[slot] = own_cache(fresh[slot]), None
            exact = None if cache is None else rows(slot)
            if exact is not None:
                early = None if seen is None else seen.get(slot)
                runs[slot] = _slot(slot, exact, cache, queries.get(slot), early, bounds, sides, outputs)
        found = _side_by_side(runs)
        runs.clear()
        mx.clear_cache()
        yield from (found.get(slot) or SlotFidelity(slot, replaced=False) for slot in slots)


_Run = Generator[Sequence[mx.array], None, SlotFidelity]
"""Yields what has to be computed before it goes on."""


def _side_by_side(runs: Mapping[int, _Run]) -> dict[int, SlotFidelity]:
    """What each of two slots comes to, on a CPU by a core of its own."""
    found: dict[int, SlotFidelity] = {}
    with one_thread():
        while len(found) < len(runs):
            wanted: list[mx.array] = []
            for place, (slot, run) in enumerate(runs.items()):
                with beside() if place else nullcontext():
                    try:
                        wanted += next(run)
                    except StopIteration as end:
                        found[slot] = end.value
            mx.eval(wanted)
    return found


def _slot(
    slot: int,
    exact: Rows,
    cache: Any,
    query: Query | None,
    early: mx.array | None,
    bounds: Sequence[int],
    sides: bool,
    outputs: dict[int, mx.array],
) -> _Run:
    ours = isinstance(cache, CompressedKVCache)
    # Other caches compute in the type of their rows, and a CPU computes 16 bits slower.
    wide = not ours and on_cpu()
    keys, values = (rows[:, :, : bounds[-1]].astype(mx.float32 if wide else rows.dtype) for rows in exact)
    asked = query is not None and (query.key_shape, query.value_shape) == (keys.shape, values.shape)
    # Its own attention answers as it answers the model, and sooner than after decoding every row.
    by_itself = ours and asked and query is not None and query.sinks is None
    # Where attention is the model's own, nothing shows the cache its queries.
    listens = by_itself and cache.on_codes
    seen: Any = None
    for begin, end in pairwise(bounds):
        block = keys[:, :, begin:end], values[:, :, begin:end]
        if ours and end < bounds[-1]:
            cache.feed(*block, early if listens and not begin else None)
        else:
            cache.on_codes = by_itself
            seen = cache.update_and_fetch(*block)
        yield cache.state
    error = telling = None
    if query is not None and asked:
        if slot not in outputs:
            outputs[slot] = _attend(query, keys, values)
        if by_itself:
            attend = cache.attend if sides else cache.answer
            found = attend(query.queries.astype(mx.float32), query.scale, _float32(query.mask))
        else:
            found = _attend(query, *_dense(seen, cache))
        squares = _squares(outputs[slot], found.reshape(-1), query)
        yield [squares]
        error, telling = _error(np.array(squares, np.float64))
    if not sides:
        return SlotFidelity(slot, True, error, telling=telling)
    held = _dense(cache.keys_and_values(), cache)
    coded = zip((keys, values), held, _coded(cache, keys, values), strict=True)
    of_keys, of_values = (_side(true, rows, *numbers) for true, rows, numbers in coded)
    return SlotFidelity(slot, True, error, of_keys, of_values, telling)


def few(queries: int) -> slice:
    """Which of so many queries an estimate asks: every second one, the newest among them."""
    return slice((queries - 1) % 2, None, 2)


def _squares(expected: mx.array, found: mx.array, query: Query) -> mx.array:
    """Squared lengths of an attention output's error and of itself, by KV head and query, [2, H, L]."""
    batch, _, length, _ = query.queries.shape
    heads, dim = query.value_shape[1], query.value_shape[3]
    parts = mx.stack([found - expected, expected]).reshape(2, batch, heads, -1, length, dim)
    return mx.square(parts).sum(axis=(1, 3, 5))


def _error(squares: Floats) -> tuple[float | None, TellingHead | None]:
    """How far an attention output is off, a share of its length, and the head that tells most of it."""
    size = squares[1].sum()
    if not size:
        return None, None
    error = float(np.sqrt(squares[0].sum() / size))
    by_head = squares[0].sum(axis=1)
    head = int(by_head.argmax())
    off, of_head = squares[:, head, few(squares.shape[2])].sum(axis=1)
    return error, TellingHead(head, float(error * np.sqrt(of_head / off))) if off else None


def _attend(query: Query, keys: mx.array, values: mx.array) -> mx.array:
    # float32 throughout: the model's own 16 bits would round away what is looked for.
    out = mx.fast.scaled_dot_product_attention(
        query.queries.astype(mx.float32),
        keys.astype(mx.float32),
        values.astype(mx.float32),
        scale=query.scale,
        mask=_float32(query.mask),
        sinks=None if query.sinks is None else query.sinks.astype(mx.float32),
    )
    return out.reshape(-1)


def _float32(mask: Any) -> Any:
    return mask.astype(mx.float32) if isinstance(mask, mx.array) and mask.dtype != mx.bool_ else mask


def _dense(pair: Any, cache: Any) -> tuple[mx.array, mx.array]:
    """Keys and values as rows; mlx_lm's quantized cache hands out (codes, scales, biases) instead."""

    def rows(part: Any) -> mx.array:
        if isinstance(part, mx.array):
            return part
        codes, scales, biases = part
        return mx.dequantize(codes, scales, biases, group_size=cache.group_size, bits=cache.bits)

    keys, values = pair
    return rows(keys), rows(values)


def _coded(cache: Any, keys: mx.array, values: mx.array) -> list[tuple[int, int, int]]:
    """Bytes of codes, parameters and side data, and the range of coded rows, for keys and values."""
    if isinstance(cache, CompressedKVCache):
        found = []
        for side in (cache.key_side, cache.value_side):
            count = side.byte_count()
            first = 0 if side.sinks is None else side.sinks.shape[2]
            found.append((count.codes + count.parameters + count.side, first, first + side.coded))
        return found
    count = cache.byte_count()
    total = count.codes + count.parameters + count.side if count.codes else 0
    rows = cache.offset if total else 0
    widths = (keys.shape[3], values.shape[3])
    return [(total * width // sum(widths), 0, rows) for width in widths]


def _side(exact: mx.array, found: mx.array, used: int, first: int, last: int) -> SideFidelity | None:
    rows = _wide(exact[:, :, first:last])  # [B, H, coded, D]
    # With no more rows than channels the covariance is degenerate and the limit says nothing.
    if rows.shape[2] <= rows.shape[3]:
        return None
    squared = float(((_wide(found[:, :, first:last]) - rows) ** 2).mean())
    variance = float(rows.var(axis=2).mean())
    return SideFidelity(
        bits=used * 8 / rows.size,
        limit_bits=reverse_water_filling(covariance_eigenvalues(rows), squared),
        relative_error=(squared / variance) ** 0.5 if variance else 0.0,
    )


def _wide(rows: mx.array) -> Floats:
    return np.array(rows.astype(mx.float32)).astype(np.float64)
