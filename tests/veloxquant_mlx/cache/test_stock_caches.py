"""mlx_lm's own caches under our counting: the bytes are those the stock classes hold."""

import copy
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache, QuantizedKVCache

from tests.veloxquant_mlx.cache.feeding import feed, rows
from veloxquant_mlx.cache.slot import layer_stats, snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import CacheError
from veloxquant_mlx.telemetry import ByteCount

every_dtype = pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)


def made(method: str, **values: Any) -> Any:
    return KVCacheConfig(method=method, **values).make_cache(0)


def held(stock: Any) -> int:
    return sum(array.nbytes for _, array in tree_flatten(stock.state) if isinstance(array, mx.array))


@every_dtype
@pytest.mark.parametrize("tokens", [1, 255, 256, 300])
def test_plain_gives_and_holds_what_the_stock_cache_does(dtype: mx.Dtype, tokens: int) -> None:
    keys, values = rows(tokens, batch=2, value_dim=32, dtype=dtype)
    ours, stock = made("plain"), KVCache()
    for a, b in zip(ours.update_and_fetch(keys, values), stock.update_and_fetch(keys, values), strict=True):
        assert mx.array_equal(a, b).item()
    assert ours.resident_bytes == held(stock) == stock.nbytes
    assert ours.byte_count() == ByteCount(exact=keys.nbytes + values.nbytes)
    assert ours.reference_bytes == (keys.size + values.size) * 2


def test_plain_can_be_trimmed_like_the_stock_cache_and_counts_what_is_left() -> None:
    keys, values = rows(100)
    ours = feed(made("plain"), keys, values, [100])
    assert ours.is_trimmable()
    assert ours.trim(40) == 40
    assert ours.byte_count().exact == (keys.nbytes + values.nbytes) * 60 // 100


def test_plain_is_not_swapped_for_a_quantized_cache() -> None:
    assert not hasattr(made("plain"), "to_quantized")
    assert not hasattr(made("plain"), "bits")


@every_dtype
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64])
def test_affine_gives_and_holds_what_the_stock_cache_does(dtype: mx.Dtype, bits: int, group: int) -> None:
    keys, values = rows(100, dtype=dtype)
    ours = made("affine", affine_bits=bits, affine_group_size=group)
    stock = QuantizedKVCache(group_size=group, bits=bits)
    given = zip(
        tree_flatten(ours.update_and_fetch(keys, values)),
        tree_flatten(stock.update_and_fetch(keys, values)),
        strict=True,
    )
    for (_, a), (_, b) in given:
        assert mx.array_equal(a, b).item()
    assert ours.resident_bytes == held(stock) == stock.nbytes
    assert ours.bits == bits
    assert ours.byte_count().codes == 2 * 100 * 2 * 64 * bits // 8
    assert ours.byte_count().parameters == 2 * 100 * 2 * (64 // group) * 2 * keys.itemsize
    assert ours.reference_bytes == (keys.size + values.size) * 2


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
def test_affine_takes_every_head_size_its_group_divides(bits: int, dim: int) -> None:
    keys, values = rows(20, key_dim=dim, value_dim=dim)
    ours = made("affine", affine_bits=bits, affine_group_size=32)
    (codes, scales, biases), _ = ours.update_and_fetch(keys, values)
    back = mx.dequantize(codes, scales, biases, group_size=32, bits=bits)
    assert back.shape == keys.shape
    assert mx.abs(back - keys).max().item() < 16 / (2**bits - 1)
    assert ours.byte_count().codes == 2 * 20 * 2 * dim * bits // 8
    assert ours.reference_bytes == (keys.size + values.size) * 2


@pytest.mark.parametrize(("key_dim", "value_dim"), [(32, 64), (64, 80)])
def test_affine_refuses_heads_its_group_does_not_divide(key_dim: int, value_dim: int) -> None:
    cache = KVCacheConfig(method="affine").make_cache(7)
    with pytest.raises(CacheError) as caught:
        cache.update_and_fetch(*rows(4, key_dim=key_dim, value_dim=value_dim))  # type: ignore[attr-defined]
    assert str(caught.value).startswith("Slot 7 has heads of ")
    assert "groups of 64" in str(caught.value)
    assert cache.offset == 0
    assert cache.arrays() == []


@pytest.mark.parametrize("method", ["plain", "affine"])
def test_an_empty_cache_counts_nothing(method: str) -> None:
    cache = made(method)
    assert cache.byte_count() == ByteCount()
    assert cache.resident_bytes == cache.reference_bytes == 0
    assert bool(cache)
    assert snapshot([cache]).ratio is None


@pytest.mark.parametrize("method", ["plain", "affine"])
def test_a_deep_copy_lives_on_its_own(method: str) -> None:
    keys, values = rows(40)
    cache = feed(made(method), keys, values, [20])
    other = copy.deepcopy(cache)
    feed(other, keys, values, [20])
    assert (cache.offset, other.offset) == (20, 40)
    assert other.byte_count().total == 2 * cache.byte_count().total


def test_a_foreign_slot_is_reported_with_its_real_bytes() -> None:
    stock = KVCache()
    keys, values = rows(10)
    stock.update_and_fetch(keys, values)
    stats = layer_stats(2, stock)
    assert not stats.replaced
    assert stats.tokens == 10
    assert stats.counted == ByteCount(foreign=stock.nbytes)
    assert stats.resident_bytes == stats.reference_bytes == stock.nbytes


def test_a_snapshot_adds_up_its_slots() -> None:
    keys, values = rows(40)
    caches = [feed(made(method), keys, values, [40]) for method in ("plain", "affine", "skvq")]
    whole = snapshot(caches)
    assert whole.tokens == 40
    assert whole.resident_bytes == sum(cache.resident_bytes for cache in caches)
    assert whole.counted.total == sum(cache.byte_count().total for cache in caches)
    assert whole.ratio == whole.reference_bytes / whole.counted.total
    assert whole.gauge("frontier") == 0
    assert whole.gauge("nonsense") is None
