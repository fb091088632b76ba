"""A compressed cache beside the model's own in one slot: bytes, gauges and mlx_lm's use of the list."""

import copy
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

from tests.veloxquant_mlx.cache.feeding import feed, rows, skvq
from veloxquant_mlx.cache.mixed import MixedCache, compressed_caches, own_cache
from veloxquant_mlx.cache.slot import held_tokens, layer_stats, snapshot
from veloxquant_mlx.telemetry import ByteCount

STATE = 4 * 8 * 4
"""Bytes of the recurrent state below."""


def mixed(tokens: int = 40) -> MixedCache:
    recurrent = ArraysCache(size=2)
    recurrent[1] = mx.zeros((4, 8))
    return MixedCache(recurrent, feed(skvq(), *rows(tokens), [tokens]))


def test_bytes_are_ours_by_kind_and_the_rest_foreign() -> None:
    cache = mixed()
    alone = cache[1].byte_count()
    assert alone.codes > 0
    assert cache.byte_count() == alone + ByteCount(foreign=STATE)
    assert cache.resident_bytes == cache[1].resident_bytes + STATE == cache.nbytes
    assert cache.reference_bytes == cache[1].reference_bytes + STATE
    assert sum(array.nbytes for array in cache.arrays()) == cache.resident_bytes


def test_telemetry_tells_of_the_method_s_cache() -> None:
    cache = mixed()
    stats = layer_stats(3, cache)
    assert stats.replaced
    assert (stats.slot, stats.tokens) == (3, 40)
    assert stats.gauges == cache[1].gauges()
    assert snapshot([cache]).tokens == 40


def test_mlx_lm_finds_a_cache_list_that_cannot_be_trimmed_or_merged() -> None:
    cache = mixed()
    assert isinstance(cache, CacheList)
    assert cache and not cache.is_trimmable()
    assert cache.size() == 40
    assert not any(hasattr(cache, name) for name in ("merge", "extract", "bits", "to_quantized"))
    assert [kind for _, kind in cache.state] == ["ArraysCache", "SKVQKVCache"]
    mx.eval([cache.state])


def test_a_deep_copy_lives_on_its_own() -> None:
    cache = mixed()
    other = copy.deepcopy(cache)
    feed(other[1], *rows(60), [20])
    assert (held_tokens(cache), held_tokens(other)) == (40, 60)


def test_the_method_s_cache_is_found_inside_and_outside() -> None:
    inside, outside, stock = mixed(), skvq(), RotatingKVCache(16)
    caches: list[Any] = [inside, outside, stock, CacheList(KVCache(), KVCache())]
    assert [own_cache(cache) for cache in caches] == [inside[1], outside, None, None]
    assert list(compressed_caches(caches)) == [inside[1], outside]


def test_tokens_of_foreign_slots() -> None:
    several = CacheList(KVCache(), KVCache())
    feed(several[1], *rows(10), [10])
    assert held_tokens(several) == 10
    assert held_tokens(ArraysCache(2)) == 0
    assert snapshot([ArraysCache(2)], tokens=7).tokens == 7
