"""What the specification of the SKVQ cache promises, a test for every sentence."""

import copy
from itertools import pairwise
from typing import Any

import mlx.core as mx
import pytest

from tests.veloxquant_mlx.cache.feeding import apart, feed, rows, same, skvq
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import CacheError

HALF = {mx.float32: 2.0**-10, mx.float16: 0.0, mx.bfloat16: 0.0}
"""Relative error that keeping a row at 16 bits may cost."""


def test_below_the_window_everything_is_exact_to_16_bits() -> None:
    for dtype, relative in HALF.items():
        keys, values = rows(15, dtype=dtype)
        got_keys, got_values = skvq().update_and_fetch(keys, values)
        assert apart(got_keys, keys) <= relative * mx.abs(keys).max().item()
        assert apart(got_values, values) <= relative * mx.abs(values).max().item()


def test_from_the_window_on_aged_rows_are_not() -> None:
    keys, values = rows(16)
    got_keys, got_values = skvq().update_and_fetch(keys, values)
    assert apart(got_keys, keys) > 0.05
    assert apart(got_values, values) > 0.05


@pytest.mark.parametrize("recent", [0, 8, 16, 40])
@pytest.mark.parametrize("sizes", [[100], [1] * 100, [33, 33, 34]])
def test_the_frontier_advances_in_whole_chunks_behind_the_recent_rows(recent: int, sizes: list[int]) -> None:
    keys, values = rows(100)
    cache = skvq(skvq_recent=recent)
    start = 0
    for size in sizes:
        cache.update_and_fetch(keys[:, :, start : start + size], values[:, :, start : start + size])
        start += size
        assert cache.quantized_tokens == 16 * (max(0, start - recent) // 16)
        assert cache.tokens_seen == cache.offset == start


def test_with_recent_equal_to_the_window_the_newest_window_is_always_exact() -> None:
    keys, values = rows(80)
    cache = skvq(skvq_recent=16)
    for start in range(80):
        got, _ = cache.update_and_fetch(keys[:, :, start : start + 1], values[:, :, start : start + 1])
        newest = max(0, start + 1 - 16)
        assert apart(got[:, :, newest:], keys[:, :, newest : start + 1]) < 0.01
        if start >= 31:
            assert 16 <= cache.offset - cache.quantized_tokens <= 31


def test_the_tail_behind_the_frontier_s_end_is_exact() -> None:
    keys, values = rows(40)
    got_keys, got_values = skvq().update_and_fetch(keys, values)
    assert apart(got_keys[:, :, 32:], keys[:, :, 32:]) < 0.01
    assert apart(got_values[:, :, 32:], values[:, :, 32:]) < 0.01


@pytest.mark.parametrize("sinks", [0, 1, 4, 16])
def test_the_first_rows_stay_exact_and_no_more_than_asked_for(sinks: int) -> None:
    keys, values = rows(48)
    got_keys, got_values = skvq(skvq_n_sink=sinks).update_and_fetch(keys, values)
    for got, row in ((got_keys, keys), (got_values, values)):
        if sinks:
            assert apart(got[:, :, :sinks], row[:, :, :sinks]) < 0.01
        each = mx.abs(got - row).max(axis=(0, 1, 3))
        assert each[sinks:].min().item() > 0.01


def test_a_flushed_chunk_is_frozen() -> None:
    keys, values = rows(64)
    cache = feed(skvq(), keys, values, [32])
    before = cache.keys_and_values()
    feed(cache, keys, values, [1] * 32)
    for old, new in zip(before, cache.keys_and_values(), strict=True):
        assert mx.array_equal(old, new[:, :, :32]).item()


def test_permutations_are_frozen_with_the_first_chunk() -> None:
    keys, values = rows(64)
    cache = skvq()
    assert cache.key_perms is None
    assert cache.value_perms is None
    feed(cache, keys, values, [16])
    first = mx.array(cache.key_perms), mx.array(cache.value_perms)
    # What comes later has other channel means.
    feed(cache, -keys, -values, [16, 32])
    assert mx.array_equal(cache.key_perms, first[0]).item()
    assert mx.array_equal(cache.value_perms, first[1]).item()


def test_permutations_are_per_head_orders_of_all_channels() -> None:
    keys, values = rows(16, heads=3, key_dim=80, value_dim=48)
    cache = feed(skvq(), keys, values, [16])
    for order, dim in ((cache.key_perms, 80), (cache.value_perms, 48)):
        assert order.shape == (3, dim)
        assert order.dtype == mx.int32
        assert mx.array_equal(mx.sort(order, axis=-1), mx.broadcast_to(mx.arange(dim), (3, dim))).item()
    assert not mx.array_equal(cache.key_perms[0], cache.key_perms[1]).item()


def test_the_order_comes_from_the_first_chunk_however_much_comes_at_once() -> None:
    keys, values = rows(64)
    keys = mx.concatenate([keys[:, :, :16], -5 * keys[:, :, 16:]], axis=2)
    alone = feed(skvq(skvq_center=True), keys, values, [16])
    together = feed(skvq(skvq_center=True), keys, values, [64])
    assert mx.array_equal(alone.key_perms, together.key_perms).item()
    assert mx.array_equal(alone.key_side.mean, together.key_side.mean).item()


def test_without_reordering_there_are_no_permutations() -> None:
    cache = feed(skvq(skvq_reorder=False), *rows(32), [32])
    assert cache.key_perms is None
    assert cache.value_perms is None
    assert cache.perm_bytes == 0


def test_rotation_takes_the_place_of_reordering() -> None:
    cache = feed(skvq(skvq_rotate=True), *rows(32), [32])
    assert cache.key_perms is None
    assert cache.byte_count().side == 0


def test_reordering_helps_keys_with_channel_offsets() -> None:
    keys, values = rows(32)

    def error(**changes: Any) -> float:
        got, _ = skvq(skvq_n_sink=0, **changes).update_and_fetch(keys, values)
        return float(mx.square(got - keys).mean().item())

    assert error() < 0.7 * error(skvq_reorder=False)


def test_centring_helps_keys_with_channel_offsets() -> None:
    keys, values = rows(32)

    def error(**changes: Any) -> float:
        got, _ = skvq(skvq_n_sink=0, skvq_reorder=False, **changes).update_and_fetch(keys, values)
        return float(mx.square(got - keys).mean().item())

    assert error(skvq_center=True) < 0.5 * error()
    assert error(skvq_rotate=True, skvq_center=True) < 0.5 * error()


def test_centring_is_of_keys_only_and_takes_two_bytes_a_channel() -> None:
    keys, values = rows(32, heads=3, key_dim=64, value_dim=32)
    plain = feed(skvq(skvq_reorder=False), keys, values, [32])
    centred = feed(skvq(skvq_reorder=False, skvq_center=True), keys, values, [32])
    assert centred.byte_count().side - plain.byte_count().side == 2 * 3 * 64
    assert mx.array_equal(centred.keys_and_values()[1], plain.keys_and_values()[1]).item()


def test_rotation_spreads_one_large_channel() -> None:
    keys, values = rows(32)
    values = values * mx.array([30.0] + [1.0] * 63)

    def error(**changes: Any) -> float:
        _, got = skvq(skvq_n_sink=0, skvq_bits_value=3, **changes).update_and_fetch(keys, values)
        return apart(got[..., 1:], values[..., 1:])

    assert error(skvq_rotate=True, skvq_group_size=64) < error(skvq_reorder=False, skvq_group_size=64)


def test_a_head_size_that_cannot_be_rotated_is_refused_by_name() -> None:
    keys, values = rows(16, key_dim=36, value_dim=36)
    with pytest.raises(ValueError, match="skvq_rotate cannot rotate heads of 36 channels"):
        skvq(skvq_rotate=True).update_and_fetch(keys, values)


def test_deferred_flush_attends_to_the_running_block_exactly() -> None:
    keys, values = rows(80)
    cache = skvq(skvq_defer_flush=True)
    got, _ = cache.update_and_fetch(keys[:, :, :50], values[:, :, :50])
    assert apart(got, keys[:, :, :50]) < 0.01
    assert cache.quantized_tokens == 48
    got, _ = cache.update_and_fetch(keys[:, :, 50:], values[:, :, 50:])
    assert apart(got[:, :, 48:], keys[:, :, 48:]) < 0.01
    assert apart(got[:, :, 4:48], keys[:, :, 4:48]) > 0.05
    assert cache.quantized_tokens == 80


def test_deferred_flush_ends_in_the_same_codes() -> None:
    keys, values = rows(80)
    assert same(feed(skvq(), keys, values, [80]), feed(skvq(skvq_defer_flush=True), keys, values, [50, 30]))


def test_every_further_bit_lessens_the_error() -> None:
    keys, values = rows(64)
    errors = []
    for bits in range(1, 9):
        got, _ = skvq(skvq_n_sink=0, skvq_bits_key=bits).update_and_fetch(keys, values)
        errors.append(mx.square(got - keys).mean().item())
    assert all(more < less for less, more in pairwise(errors))


def test_key_and_value_bits_are_separate() -> None:
    keys, values = rows(64)
    base = feed(skvq(), keys, values, [64]).keys_and_values()
    finer = feed(skvq(skvq_bits_value=4), keys, values, [64]).keys_and_values()
    assert mx.array_equal(base[0], finer[0]).item()
    assert apart(finer[1], values) < apart(base[1], values)


def test_a_fixed_clip_factor_is_used_when_nothing_is_searched() -> None:
    keys, values = rows(64)
    outcomes = [
        feed(skvq(skvq_clip_search=False, skvq_clip_alpha=alpha), keys, values, [64]).keys_and_values()[0]
        for alpha in (0.5, 1.0)
    ]
    assert apart(*outcomes) > 0.1
    searched = feed(skvq(), keys, values, [64]).keys_and_values()[0]
    assert mx.square(searched - keys).mean() < min(mx.square(o - keys).mean() for o in outcomes)


@pytest.mark.parametrize("name", ["bits", "merge", "to_quantized", "__len__", "__bool__"])
def test_names_that_mlx_lm_probes_for_are_absent(name: str) -> None:
    cache = skvq()
    assert not hasattr(cache, name)
    feed(cache, *rows(32), [32])
    assert not hasattr(cache, name)


def test_it_is_true_also_when_empty() -> None:
    assert bool(skvq()) is True


def test_it_cannot_be_trimmed() -> None:
    keys, values = rows(40)
    cache = skvq()
    assert cache.is_trimmable() is False
    feed(cache, keys, values, [40])
    assert cache.is_trimmable() is False
    assert cache.trim(5) == 0
    assert cache.offset == 40


def test_it_is_an_mlx_lm_cache() -> None:
    from mlx_lm.models.cache import KVCache, can_trim_prompt_cache

    cache = skvq()
    assert isinstance(cache, KVCache)
    assert can_trim_prompt_cache([cache]) is False
    assert cache.empty()
    feed(cache, *rows(20), [20])
    assert not cache.empty()
    assert cache.size() == 20
    assert cache.nbytes == cache.resident_bytes
    assert all(isinstance(array, mx.array) for array in cache.state)


def test_a_configuration_of_the_documented_call_makes_it() -> None:
    from veloxquant_mlx.cache.skvq_cache import SKVQKVCache

    cache = SKVQKVCache(KVCacheConfig(method="skvq", head_dim=64, skvq_bits_key=2))  # type: ignore[arg-type]
    got, _ = cache.update_and_fetch(*rows(20))
    assert got.shape == (1, 2, 20, 64)


@pytest.mark.parametrize("flushed", [10, 40])
def test_a_deep_copy_lives_on_its_own(flushed: int) -> None:
    keys, values = rows(80)
    cache = feed(skvq(skvq_center=True), keys, values, [flushed])
    other = copy.deepcopy(cache)
    assert same(cache, other)
    feed(other, keys, values, [20])
    assert (cache.offset, other.offset) == (flushed, flushed + 20)
    assert same(feed(cache, keys, values, [20]), other)


def test_gauges_are_those_the_method_declares() -> None:
    cache = feed(skvq(skvq_recent=8), *rows(50), [50])
    assert cache.gauges().keys() == cache.config.gauges.keys()
    assert cache.gauges() == {"frontier": 32, "sinks": 4, "tail": 18}
    assert skvq().gauges() == {"frontier": 0, "sinks": 0, "tail": 0}


def test_rows_of_another_head_size_than_told_are_refused() -> None:
    cache = skvq(head_dim=128)
    with pytest.raises(CacheError, match="Slot 5: head_dim is set to 128"):
        cache.update_and_fetch(*rows(4))
    assert cache.empty()
