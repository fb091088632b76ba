"""What one slot promises, for every method with every preset: rows, exact ones bit for bit, and refusals."""

from itertools import accumulate
from typing import Any

import mlx.core as mx
import pytest

from tests.veloxquant_mlx.cache.feeding import rows
from tests.veloxquant_mlx.cases import SETTINGS, fitting
from veloxquant_mlx.cache.exact_side import ExactSide
from veloxquant_mlx.config import KVCacheConfig, SlotShape, methods
from veloxquant_mlx.errors import CacheError

SHAPE = SlotShape(heads=2, key_dim=32, value_dim=64, batch=2)
TOKENS = 120
OURS = [name for name, config in SETTINGS.items() if config.compresses and config.gives_rows]
"""Settings of caches that keep exact rows beside codes; mlx_lm's own keep none."""

every_setting = pytest.mark.parametrize("setting", SETTINGS)
every_dtype = pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)


def made(setting: str) -> Any:
    return fitting(SETTINGS[setting], SHAPE).make_cache(3)


def given(dtype: mx.Dtype = mx.float32) -> tuple[mx.array, mx.array]:
    return rows(TOKENS, batch=2, key_dim=32, value_dim=64, dtype=dtype)


def dense(cache: Any, pair: Any) -> list[mx.array]:
    """Rows of keys and values; packed ones decoded by MLX."""
    return [
        part
        if isinstance(part, mx.array)
        else mx.dequantize(*part, group_size=cache.group_size, bits=cache.bits)
        for part in pair
    ]


@every_setting
@every_dtype
@pytest.mark.parametrize("sizes", [(TOKENS,), (50, 1, 1, 30, 38), (7, 64, 49)], ids=str)
def test_every_call_returns_all_rows_in_order(setting: str, dtype: mx.Dtype, sizes: tuple[int, ...]) -> None:
    cache, (keys, values) = made(setting), given(dtype)
    for start, end in zip((0, *accumulate(sizes)), accumulate(sizes), strict=False):
        found = dense(cache, cache.update_and_fetch(keys[:, :, start:end], values[:, :, start:end]))
        mx.eval(cache.state)
        assert cache.offset == end
        for got, wanted in zip(found, (keys, values), strict=True):
            assert got.shape == wanted[:, :, :end].shape
            assert got.dtype == dtype
            # Nearer to its own row than to any other: nothing is out of order.
            first = mx.linalg.norm((got - wanted[:, :, :end]).astype(mx.float32), axis=-1)
            other = mx.linalg.norm((got - mx.roll(wanted[:, :, :end], 1, axis=2)).astype(mx.float32), axis=-1)
            assert (first <= other).mean().item() > 0.97


@pytest.mark.parametrize("setting", OURS)
@every_dtype
def test_exact_rows_are_exact(setting: str, dtype: mx.Dtype) -> None:
    cache, pair = made(setting), given(dtype)
    found = cache.update_and_fetch(*(side[:, :, :90] for side in pair))
    found = cache.update_and_fetch(*(side[:, :, 90:] for side in pair))
    kept = mx.bfloat16 if dtype == mx.bfloat16 else mx.float16
    gauges = cache.gauges()
    sinks, frontier = int(gauges["sinks"]), int(gauges["frontier"])
    assert 0 < frontier < TOKENS or cache.recent == 0
    for got, wanted, side in zip(found, pair, (cache.key_side, cache.value_side), strict=True):
        stored = wanted.astype(kept).astype(dtype)
        assert mx.array_equal(got[:, :, :sinks], stored[:, :, :sinks]).item()
        assert mx.array_equal(got[:, :, frontier:], stored[:, :, frontier:]).item()
        between = slice(sinks, frontier)
        stays = isinstance(side, ExactSide)
        assert mx.array_equal(got[:, :, between], stored[:, :, between]).item() == stays


@every_setting
def test_bytes_never_shrink_to_nothing_nor_pass_those_of_the_rows(setting: str) -> None:
    cache, (keys, values) = made(setting), given()
    assert cache.byte_count().total == cache.resident_bytes == cache.reference_bytes == 0
    for start in range(0, TOKENS, 20):
        cache.update_and_fetch(keys[:, :, start : start + 20], values[:, :, start : start + 20])
        count = cache.byte_count()
        assert cache.reference_bytes == 2 * 2 * (32 + 64) * (start + 20) * 2
        assert all(value >= 0 for value in count.as_dict().values())
        if cache.gauges():
            assert count.total <= 1.05 * cache.reference_bytes + count.side
    assert count.codes > 0 or not SETTINGS[setting].compresses


@pytest.mark.parametrize("setting", OURS)
@pytest.mark.parametrize("wrong", [(1, 2, 32, 64), (2, 4, 32, 64), (2, 2, 64, 64), (2, 2, 32, 32)], ids=str)
def test_rows_of_another_shape_are_refused_and_change_nothing(setting: str, wrong: tuple[int, ...]) -> None:
    cache, pair = made(setting), given()
    cache.update_and_fetch(*pair)
    before = cache.arrays()
    batch, heads, key_dim, value_dim = wrong
    other = rows(4, batch=batch, heads=heads, key_dim=key_dim, value_dim=value_dim)
    with pytest.raises(CacheError, match=r"^Slot 3: .*\.$"):
        cache.update_and_fetch(*other)
    assert cache.offset == TOKENS
    assert all(a is b for a, b in zip(before, cache.arrays(), strict=True))


@pytest.mark.parametrize("key", methods())
def test_a_method_says_what_it_is(key: str) -> None:
    declared = methods()[key]
    assert declared.label and declared.summary.endswith(".") and declared.__doc__
    for gauge in declared.gauges.values():
        assert gauge.label and gauge.help.endswith(".")
    config: KVCacheConfig = declared()
    shape = SlotShape(heads=2, key_dim=64, value_dim=64)
    small, large = config.predict(100, shape), config.predict(4000, shape)
    assert 0 < small.total < large.total
    assert (large.codes > 0) == config.compresses
