"""One slot, marked and taken back: as if nothing had come since."""

import copy
import gc
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

from tests.veloxquant_mlx.cache.feeding import feed, rows, same
from veloxquant_mlx.cache import marks
from veloxquant_mlx.cache.marks import Grown
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import CacheError

CONFIGS: dict[str, dict[str, Any]] = {
    "documented": {"method": "skvq", "skvq_window": 16},
    "reordered with recent rows": {"method": "skvq", "skvq_window": 16, "skvq_recent": 16},
    "8-bit parameters, rotated, centred": {
        "method": "skvq", "skvq_window": 16, "skvq_recent": 8, "skvq_group_size": 64, "skvq_param_bits": 8,
        "skvq_rotate": True, "skvq_center": True, "skvq_defer_flush": True, "skvq_bits_key": 3,
    },
    "every row of the first chunk a sink": {"method": "skvq", "skvq_window": 16, "skvq_n_sink": 16},
    "no sinks": {"method": "skvq", "skvq_window": 16, "skvq_n_sink": 0, "skvq_param_bits": 8},
    "latents": {"method": "svdq", "svdq_group_size": 16, "svdq_fit_rows": 64},
    "latents, and values coded": {
        "method": "svdq_skvq", "svdq_bit_schedule": "auto", "svdq_n_sink": 4, "svdq_recent": 8,
        "svdq_fit_rows": 64, "svdq_param_bits": 8, "svdq_defer_flush": True,
    },
    "affine": {"method": "affine"},
    "plain": {"method": "plain"},
}  # fmt: skip
TOTAL = 600


def _splits(seed: int, total: int) -> list[int]:
    """Blocks of odd sizes, single rows among them, that add up to ``total``."""
    source = np.random.default_rng(seed)
    sizes: list[int] = []
    while sum(sizes) < total:
        sizes.append(int(source.choice([1, 1, 1, 2, 15, 16, 17, 40, 100])))
    sizes[-1] -= sum(sizes) - total
    return sizes


def _used(cache: Any) -> list[mx.array]:
    """What the cache stands for: rows as attention gets them."""
    return [] if cache.empty() else [leaf for _, leaf in tree_flatten(cache.keys_and_values())]


def _equal(first: Any, second: Any) -> bool:
    if hasattr(first, "frontier"):
        return same(first, second) and first.gauges() == second.gauges()
    ours, theirs = _used(first), _used(second)
    pairs = zip(ours, theirs, strict=True)
    return first.offset == second.offset and all(bool(mx.array_equal(a, b).item()) for a, b in pairs)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_a_rewound_cache_is_the_one_that_never_went_on(name: str, seed: int) -> None:
    keys, values = rows(TOTAL, seed=seed)
    source = np.random.default_rng(100 + seed)
    stops = sorted({0, *(int(n) for n in source.integers(1, TOTAL - 1, 4))})
    config = KVCacheConfig(**CONFIGS[name])
    cache = config.make_cache(0)
    made = []
    for start, end in zip(stops, [*stops[1:], TOTAL], strict=True):
        made.append((copy.deepcopy(cache), cache.mark()))
        feed(cache, keys, values, _splits(seed + start, end - start))
    for twin, mark in reversed(made):
        bytes_then = twin.resident_bytes
        cache.rewind(mark)
        assert cache.offset == mark.tokens == twin.offset
        assert _equal(cache, twin)
        assert cache.resident_bytes == bytes_then
        assert cache.byte_count() == twin.byte_count()
        # Going on must not show it either: the same rows in the same calls give the same cache.
        again = copy.deepcopy(cache)
        for one in (again, twin):
            feed(one, keys, values, _splits(seed + 7, TOTAL - one.offset))
        assert _equal(again, twin)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_mark_may_be_gone_back_to_many_times(name: str) -> None:
    keys, values = rows(300)
    other_keys, other_values = rows(300, seed=9)
    cache = feed(KVCacheConfig(**CONFIGS[name]).make_cache(0), keys, values, [75])
    twin, mark = copy.deepcopy(cache), cache.mark()
    for on_keys, on_values in ((keys, values), (other_keys, other_values), (keys, values)):
        feed(cache, on_keys, on_values, [1] * 40 + [100])
        cache.rewind(mark)
        assert _equal(cache, twin)


def test_a_mark_keeps_the_exact_tail_and_no_codes() -> None:
    keys, values = rows(500)
    config = KVCacheConfig("skvq", skvq_window=16, skvq_recent=16)
    cache = feed(config.make_cache(0), keys, values, [500])
    row = 2 * 2 * 64 * 2  # keys and values, heads, channels, bytes
    tail = 500 - cache.frontier
    mark = cache.mark()
    assert 16 <= tail < 32
    assert mark.nbytes == tail * row
    for plain in ("plain", "affine"):
        assert feed(KVCacheConfig(plain).make_cache(0), keys, values, [500]).mark().nbytes == 0


@pytest.mark.parametrize("name", ["reordered with recent rows", "documented", "plain"])
def test_a_cut_mark_stands_where_the_cache_once_stood(name: str) -> None:
    keys, values = rows(400)
    config = KVCacheConfig(**CONFIGS[name])
    cache = feed(config.make_cache(0), keys, values, [300, *[1] * 45])
    mark = cache.mark()
    lowest = mark.kept.lowest
    for tokens in {lowest, max(lowest, 301), 344, 345} - set(range(lowest)):
        if tokens < 300:
            continue
        short = marks.cut(cache, mark, tokens)
        assert short.nbytes <= mark.nbytes
        feed(cache, keys, values, [1] * 50)
        cache.rewind(short)
        assert _equal(cache, feed(config.make_cache(0), keys, values, [300, *[1] * (tokens - 300)]))
        feed(cache, keys, values, [1] * (345 - tokens))
        mark = cache.mark()


def test_before_the_first_flush_every_row_may_be_cut_away() -> None:
    keys, values = rows(400)
    cache = feed(KVCacheConfig("skvq").make_cache(0), keys, values, [100])
    mark = cache.mark()
    short, none = marks.cut(cache, mark, 10), marks.cut(cache, mark, 0)
    feed(cache, keys, values, [300])
    cache.rewind(short)
    assert _equal(cache, feed(KVCacheConfig("skvq").make_cache(0), keys, values, [10]))
    cache.rewind(none)
    assert cache.empty()
    feed(cache, *rows(20, heads=3), [20])  # another shape: nothing of the first is left


@pytest.mark.parametrize("name", CONFIGS)
def test_a_mark_beyond_the_place_gone_back_to_holds_no_longer(name: str) -> None:
    keys, values = rows(300)
    cache = feed(KVCacheConfig(**CONFIGS[name]).make_cache(0), keys, values, [50])
    early = cache.mark()
    feed(cache, keys, values, [100])
    late = cache.mark()
    cache.rewind(early)
    feed(cache, *rows(300, seed=3), [200])
    before = copy.deepcopy(cache)
    with pytest.raises(CacheError, match="does not hold"):
        cache.rewind(late)
    assert _equal(cache, before)
    cache.rewind(early)


def test_a_mark_of_another_cache_is_refused() -> None:
    keys, values = rows(50)
    first, second = (feed(KVCacheConfig("skvq").make_cache(0), keys, values, [50]) for _ in range(2))
    mark = first.mark()
    with pytest.raises(CacheError, match="another cache"):
        second.rewind(mark)
    with pytest.raises(CacheError, match="another cache"):
        copy.deepcopy(first).rewind(mark)


@pytest.mark.parametrize("method", ["plain", "affine"])
def test_trimming_spends_the_marks_beyond(method: str) -> None:
    keys, values = rows(100)
    cache = feed(KVCacheConfig(method).make_cache(0), keys, values, [40])
    early = cache.mark()
    feed(cache, keys, values, [40])
    late = cache.mark()
    assert cache.trim(20) == 20
    with pytest.raises(CacheError):
        cache.rewind(late)
    cache.rewind(early)
    assert cache.offset == 40


def test_marks_and_caches_that_nobody_holds_are_forgotten() -> None:
    gc.collect()
    before = len(marks._standing)
    cache = KVCacheConfig("skvq").make_cache(0)
    mark = cache.mark()
    assert len(marks._standing) == before + 1
    del mark
    gc.collect()
    assert not marks._standing[cache]
    del cache
    gc.collect()
    assert len(marks._standing) == before


def test_a_plain_cache_going_back_gives_the_memory_it_grew_by_back() -> None:
    keys, values = rows(2000)
    slot = KVCache()
    slot.update_and_fetch(keys[:, :, :10], values[:, :, :10])
    kept = Grown.of(slot)
    slot.update_and_fetch(keys[:, :, 10:], values[:, :, 10:])
    kept.put_back(slot)
    assert slot.offset == 10
    assert slot.keys.shape[2] == 256
