"""What the specification of the SVDq cache promises, a test for every sentence."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.veloxquant_mlx.cache.feeding import apart, feed, rows, same
from veloxquant_mlx.config import KVCacheConfig, SlotShape
from veloxquant_mlx.errors import QuantizerConfigError
from veloxquant_mlx.telemetry import ByteCount

METHODS = ("svdq", "svdq_skvq")
FULL = {"svdq_rank": 64, "svdq_bit_schedule": (8,)}
"""Every direction at eight bits: what comes back is close to what went in."""
PRESET = {
    "svdq_bit_schedule": "auto", "svdq_n_sink": 4, "svdq_recent": 8, "svdq_fit_rows": 64,
    "svdq_param_bits": 8, "svdq_defer_flush": True,
}  # fmt: skip


def svdq(method: str = "svdq", **values: Any) -> Any:
    return KVCacheConfig(method=method, **values).make_cache(5)


def low_rank(
    tokens: int, rank: int = 6, *, seed: int = 0, heads: int = 2, dim: int = 64
) -> tuple[mx.array, mx.array]:
    """Keys of each head in a subspace of its own, [1, H, S, D], and values as ``rows`` gives them."""
    source = np.random.default_rng(seed)
    mixing = source.normal(0, 1, (1, heads, rank, dim))
    latents = np.random.default_rng(seed + 100).normal(0, 1, (1, heads, tokens, rank))
    keys = latents @ mixing + source.normal(0, 2, (1, heads, 1, dim))
    return mx.array(keys.astype(np.float32)), rows(tokens, heads=heads)[1]


def test_the_basis_is_fitted_when_it_pays_and_frozen_then() -> None:
    keys, values = low_rank(300)
    cache = svdq()
    feed(cache, keys, values, [63])
    assert cache.ranks == () and cache.rank == 0 and cache.frontier == 0
    feed(cache, keys, values, [100])
    heads = cache.heads()
    assert len(heads) == 2 and cache.frontier == 160
    feed(cache, keys, values, [100, 1, 1])
    assert cache.heads() is heads


def test_every_batch_row_and_head_has_its_own_basis() -> None:
    keys = mx.concatenate([low_rank(100, rank, seed=rank)[0] for rank in (2, 9)])
    cache = feed(svdq(svdq_energy_threshold=0.9999), keys, mx.zeros_like(keys), [100])
    assert cache.ranks == (2, 2, 9, 9)
    assert cache.rank == 5
    # At eight bits a channel, a head in another's basis would lose most of its rows.
    full = feed(svdq(svdq_rank=9, svdq_bit_schedule=(8,)), keys, mx.zeros_like(keys), [100])
    assert apart(full.keys_and_values()[0], keys) < 0.2


def test_ranks_reported_are_ranks_stored() -> None:
    cache = feed(svdq(), *low_rank(200), [200])
    for head in cache.heads():
        assert len(head.bits) == head.rank
        assert len(head.spectrum) == 64
    stored = sum(sum(width > 0 for width in head.bits) for head in cache.heads())
    assert cache.key_side.store.directions.shape == (stored, 64)
    codes = {width.store.bits: width.store.codes.shape[2] for width in cache.key_side.store.widths}
    for bits, count in codes.items():
        assert count == 6 * sum(head.bits.count(bits) for head in cache.heads())


def test_an_explicit_rank_is_used() -> None:
    assert feed(svdq(svdq_rank=24), *rows(100), [100]).ranks == (24, 24)


def test_the_energy_sets_the_smallest_rank_that_holds_it() -> None:
    keys, values = low_rank(400, rank=12)
    ranks = []
    for share in (0.5, 0.9, 0.9999):
        cache = feed(svdq(svdq_energy_threshold=share), keys, values, [400])
        ranks.append(cache.rank)
        for head in cache.heads():
            assert sum(head.spectrum[: head.rank]) >= share
            assert sum(head.spectrum[: head.rank - 1]) < share
    assert ranks == sorted(ranks) and ranks[-1] == 12


def test_groups_of_0_bits_are_stored_as_nothing_and_decode_to_exactly_0() -> None:
    cache = feed(svdq(svdq_rank=64, svdq_bit_schedule=(8, 0, 0, 0)), *rows(64), [64])
    store = cache.key_side.store
    assert store.directions.shape == (2 * 16, 64)
    assert [width.store.bits for width in store.widths] == [8]
    decoded = store.decoded(mx.float32) - store.mean.astype(mx.float32)[:, None]
    # Nothing of a decoded row lies outside the 16 kept directions.
    kept = (store.directions * store.steps).reshape(2, 16, 64)
    inside = (decoded @ kept.swapaxes(-1, -2)) @ kept
    assert apart(inside, decoded) < 0.05


def test_groups_of_1_bit_decode_to_two_values_a_channel_and_group() -> None:
    cache = feed(svdq(svdq_rank=8, svdq_bit_schedule=(1,)), *rows(96), [96])
    (width,) = cache.key_side.store.widths
    decoded = np.array(width.store.decoded(mx.float32)).reshape(-1, 32)
    assert all(len(np.unique(group)) <= 2 for group in decoded)


def test_values_pass_unchanged_at_16_bits() -> None:
    keys, values = low_rank(300)
    half = values.astype(mx.float16)
    cache = svdq(**PRESET)
    for start in range(0, 300, 75):
        block = slice(start, start + 75)
        _, got = cache.update_and_fetch(keys[:, :, block], values[:, :, block])
        assert apart(got, half[:, :, : start + 75]) == 0
    assert cache.value_fp16_bytes == 300 * 2 * 64 * 2 == cache.fp16_value_bytes


def test_rows_of_an_incomplete_group_are_exact() -> None:
    keys, values = rows(90)
    got, _ = svdq().update_and_fetch(keys, values)
    assert apart(got[:, :, 64:], keys[:, :, 64:]) < 0.01
    assert apart(got[:, :, :64], keys[:, :, :64]) > 0.05


@pytest.mark.parametrize("method", METHODS)
def test_sinks_and_recent_rows_are_exact(method: str) -> None:
    keys, values = rows(200)
    cache = feed(svdq(method, **PRESET), keys, values, [128, 1, 71])
    got, got_values = cache.keys_and_values()
    assert cache.frontier == 4 + 160
    for part in (slice(0, 4), slice(164, 200)):
        assert apart(got[:, :, part], keys[:, :, part]) < 0.01
        assert apart(got_values[:, :, part], values[:, :, part]) < 0.01


def test_sinks_do_not_bend_the_basis() -> None:
    keys, values = low_rank(200)
    long = mx.concatenate([keys[:, :, :4] * 1000, keys[:, :, 4:]], axis=2)
    first = feed(svdq(**PRESET), keys, values, [200])
    second = feed(svdq(**PRESET), long, values, [200])
    assert first.heads() == second.heads()
    assert mx.array_equal(first.key_side.store.directions, second.key_side.store.directions)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [[1] * 300, [300], [7, 100, 1, 192], [64, 236]])
def test_any_split_of_the_rows_stores_the_same_codes(method: str, sizes: list[int]) -> None:
    keys, values = low_rank(300)
    config = {**PRESET, "svdq_group_size": 16}
    whole = feed(svdq(method, **config), keys, values, [150, 150])
    assert same(feed(svdq(method, **config), keys, values, sizes), whole)


def test_tokens_after_the_first_block_are_stored_one_by_one_as_in_a_block() -> None:
    keys, values = low_rank(200)
    first = feed(svdq(), keys, values, [100, *[1] * 100])
    assert same(first, feed(svdq(), keys, values, [100, 100]))


@pytest.mark.parametrize("split", [[2, *[1] * 98], [3, 97], [1, 99], [1] * 100])
def test_a_first_call_of_few_rows_waits_for_enough_to_fit(split: list[int]) -> None:
    keys, values = low_rank(100)
    cache = feed(svdq(), keys, values, split)
    assert cache.frontier == 96
    errors = mx.abs(cache.keys_and_values()[0] - keys).mean(axis=(1, 3))
    assert errors.max().item() < 1.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("preset", [True, False])
def test_equal_keys_come_back_as_they_were(method: str, preset: bool) -> None:
    keys = mx.full((1, 2, 200, 64), 3.25)
    values = mx.ones((1, 2, 200, 64))
    cache = feed(svdq(method, **(PRESET if preset else {})), keys, values, [150, 50])
    got, _ = cache.keys_and_values()
    assert cache.frontier > 0
    assert apart(got, keys) < 0.01


def test_more_rank_than_rows_is_defined() -> None:
    keys, values = rows(64)
    cache = feed(svdq(svdq_rank=64, svdq_bit_schedule=(8,)), keys, values, [64])
    assert apart(cache.keys_and_values()[0], keys) < 0.1


def test_drift_tells_of_a_change_of_topic() -> None:
    keys, values = low_rank(400)
    other = low_rank(200, seed=9)[0]
    cache = feed(svdq(**PRESET), keys, values, [200, 100])
    assert max(cache.drift()) < 0.02
    assert cache.gauges()["drift"] < 2
    feed(
        cache,
        mx.concatenate([keys[:, :, :300], other], axis=2),
        mx.concatenate([values, values], axis=2),
        [100, 100],
    )
    assert min(cache.drift()) > 0.3
    assert cache.gauges()["drift"] > 30


def test_gauges_do_not_tell_what_is_not_known_yet() -> None:
    cache = svdq()
    assert "rank" not in cache.gauges() and "drift" not in cache.gauges()
    feed(cache, *low_rank(100), [100])
    assert cache.gauges()["rank"] == cache.rank
    assert "drift" not in cache.gauges()


def test_average_bits_are_the_schedule_s_mean_times_rank_over_channels() -> None:
    cache = feed(svdq(svdq_rank=32), *rows(100), [100])
    assert cache.assigned_avg_bits == 2 * 32 / 64
    assert svdq().assigned_avg_bits == 0


def test_a_schedule_is_refined_by_what_the_channels_hold() -> None:
    """Bits by energy: each head on its own spectrum, within what was asked for, parameters included."""
    keys = mx.concatenate([low_rank(300, 3, heads=1)[0], rows(300, heads=1)[0]], axis=1)
    cache = feed(svdq(**PRESET, svdq_avg_bits=2.0), keys, mx.zeros_like(keys), [300])
    first, second = cache.heads()
    assert first.rank == 3 and second.rank > 16
    for head in (first, second):
        stored = [width for width in head.bits if width]
        assert sum(stored) + 0.5 * len(stored) <= 2.0 * 64


def test_an_automatic_rank_too_small_for_the_schedule_cuts_nothing_off_and_says_so() -> None:
    cache = feed(svdq(svdq_energy_threshold=0.999), *low_rank(200, rank=3), [200])
    assert [head.bits for head in cache.heads()] == [(8, 4, 2)] * 2
    assert "2 of 2 heads" in cache.notes[0] and "Slot 5" in cache.notes[0]
    assert feed(svdq(), *rows(200), [200]).notes == ()


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("svdq_rank", {"svdq_rank": 0}),
        ("svdq_rank", {"svdq_rank": 7}),
        ("svdq_rank", {"svdq_rank": 65, "head_dim": 64}),
        ("svdq_energy_threshold", {"svdq_energy_threshold": 1.5}),
        ("svdq_energy_threshold", {"svdq_energy_threshold": float("nan")}),
        ("svdq_bit_schedule", {"svdq_bit_schedule": ()}),
        ("svdq_bit_schedule", {"svdq_bit_schedule": (0, 0)}),
        ("svdq_bit_schedule", {"svdq_bit_schedule": (9,)}),
        ("svdq_bit_schedule", {"svdq_bit_schedule": "best"}),
        ("svdq_avg_bits", {"svdq_avg_bits": 0}),
        ("svdq_group_size", {"svdq_group_size": 48}),
        ("svdq_n_sink", {"svdq_n_sink": -1}),
        ("svdq_recent", {"svdq_recent": -8}),
        ("svdq_fit_rows", {"svdq_fit_rows": -1}),
        ("svdq_positions", {"svdq_positions": -1}),
        ("svdq_query_weight", {"svdq_query_weight": 2}),
        ("svdq_param_bits", {"svdq_param_bits": 4}),
        ("svdq_max_ctx", {"svdq_max_ctx": 0}),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_every_refusal_names_its_field(method: str, field: str, values: dict[str, Any]) -> None:
    with pytest.raises(QuantizerConfigError, match=field) as refusal:
        KVCacheConfig(method, **values)
    assert refusal.value.field == field


def test_a_rank_is_small_enough_for_the_heads_it_is_used_on() -> None:
    config = KVCacheConfig("svdq", svdq_rank=100)
    assert config.misfit(SlotShape(2, 128, 128)) is None
    assert "64 channels" in (config.misfit(SlotShape(2, 64, 64)) or "")


@pytest.mark.parametrize("method", METHODS)
def test_what_mlx_lm_probes_for_is_absent(method: str) -> None:
    cache = feed(svdq(method), *rows(100), [100])
    for name in ("bits", "to_quantized", "merge", "__len__", "__bool__"):
        assert not hasattr(cache, name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_rows_come_back_in_the_type_they_came_in(method: str, dtype: mx.Dtype) -> None:
    keys, values = rows(200, batch=3, heads=2, key_dim=48, value_dim=32, dtype=dtype)
    config = {**FULL, "svdq_rank": 48, **({"skvq_bits_value": 8} if method == "svdq_skvq" else {})}
    got_keys, got_values = svdq(method, **config).update_and_fetch(keys, values)
    assert got_keys.dtype == got_values.dtype == dtype
    assert got_keys.shape == keys.shape and got_values.shape == values.shape
    assert apart(got_keys, keys) < 0.2 and apart(got_values, values) < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_outliers_stay_finite(method: str) -> None:
    keys, values = rows(300)
    keys[:, :, ::7, 3] = 65504.0
    keys[:, :, 1::7, 3] = -65504.0
    for config in ({}, PRESET):
        cache = feed(svdq(method, **config), keys, values, [200, 100])
        got, _ = cache.keys_and_values()
        assert mx.isfinite(got).all().item()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("config", [{}, PRESET, {"svdq_rank": 16}])
@pytest.mark.parametrize("tokens", [10, 100, 333])
def test_bytes_counted_are_bytes_held(method: str, config: dict[str, Any], tokens: int) -> None:
    cache = feed(svdq(method, **config), *rows(tokens, batch=2, heads=3), [tokens])
    assert cache.byte_count().total == cache.resident_bytes == cache.nbytes


@pytest.mark.parametrize("config", [{}, PRESET])
def test_bytes_never_exceed_16_bits_once_two_groups_are_full(config: dict[str, Any]) -> None:
    keys, values = rows(400)
    cache = svdq(**config)
    for start in range(400):
        cache.update_and_fetch(keys[:, :, start : start + 1], values[:, :, start : start + 1])
        if cache.frontier >= 64:
            assert cache.resident_bytes < cache.reference_bytes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tokens", [0, 3, 63, 64, 100, 500])
def test_a_rank_and_schedule_set_by_hand_are_predicted_to_the_byte(method: str, tokens: int) -> None:
    config = KVCacheConfig(method, svdq_rank=24, svdq_n_sink=4, svdq_recent=8)
    cache = feed(config.make_cache(0), *rows(tokens, heads=3), [tokens] if tokens else [])
    held = cache.byte_count() if tokens else ByteCount()
    assert config.predict(tokens, SlotShape(3, 64, 64)) == held


def test_key_bytes_are_codes_parameters_and_the_basis() -> None:
    cache = feed(svdq(svdq_rank=8, svdq_bit_schedule=(4, 2)), *rows(64, heads=1), [64])
    codes = 64 * (4 * 4 + 4 * 2) // 8
    parameters = 2 * 8 * 4
    basis = 8 * 64 + 64 * 2 + 8 * 2
    assert cache.compressed_key_bytes == codes + parameters + basis
    assert cache.fp16_key_bytes == 64 * 64 * 2


def test_the_stack_shrinks_both_tensors() -> None:
    keys, values = rows(400)
    stack = feed(svdq("svdq_skvq"), keys, values, [400])
    alone = feed(svdq("svdq"), keys, values, [400])
    assert stack.compressed_key_bytes == alone.compressed_key_bytes
    assert stack.compressed_value_bytes == 384 * 2 * (64 * 2 // 8 + 2 * 4)
    assert stack.resident_bytes < 0.6 * alone.resident_bytes


def test_the_stack_s_values_are_those_of_skvq() -> None:
    keys, values = rows(64)
    stack = feed(svdq("svdq_skvq"), keys, values, [64])
    skvq = feed(KVCacheConfig("skvq", skvq_window=32, skvq_n_sink=0).make_cache(0), keys, values, [64])
    assert mx.array_equal(stack.keys_and_values()[1], skvq.keys_and_values()[1])
