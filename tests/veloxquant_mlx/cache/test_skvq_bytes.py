"""Bytes: counted in closed form, and equal to what the arrays hold."""

from typing import Any

import mlx.core as mx
import pytest

from tests.veloxquant_mlx.cache.feeding import feed, rows, skvq
from veloxquant_mlx.cache.slot import layer_stats, snapshot
from veloxquant_mlx.telemetry import ByteCount


def fed(tokens: int = 70, **changes: Any) -> Any:
    shape = {"batch": 2, "heads": 3, "key_dim": 80, "value_dim": 48}
    return feed(skvq(skvq_group_size=32, **changes), *rows(tokens, **shape), [tokens])


# 70 tokens with a window of 16: frontier 64, 4 sinks, 60 coded rows, 6 in the tail; 6 heads in all.
CODED = 60 * 2 * 3


@pytest.mark.parametrize("bits", range(1, 9))
def test_codes_take_d_times_b_bits_and_parameters_four_bytes_a_group(bits: int) -> None:
    cache = fed(skvq_bits_key=bits, skvq_bits_value=2)
    assert cache.compressed_key_bytes == CODED * (80 * bits // 8 + 3 * 4)
    assert cache.compressed_value_bytes == CODED * (48 * 2 // 8 + 2 * 4)


def test_the_documented_closed_form_for_a_plain_shape() -> None:
    """D * b / 8 bytes of codes + ceil(D / g) * 2 * 2 of (lo, scale), per token and tensor."""
    cache = feed(skvq(skvq_n_sink=0), *rows(64, heads=1), [64])
    assert cache.compressed_key_bytes == 64 * (64 * 2 // 8 + 2 * 2 * 2)


def test_nothing_is_compressed_before_the_first_flush() -> None:
    cache = fed(15)
    assert cache.compressed_key_bytes == cache.compressed_value_bytes == 0
    assert cache.quantized_tokens == 0
    assert cache.assigned_avg_bits == 0.0
    assert cache.residual_fp16_bytes == 15 * 6 * (80 + 48) * 2
    assert snapshot([cache]).ratio is None


def test_sixteen_bit_bytes_are_what_all_tokens_would_take() -> None:
    cache = fed()
    assert cache.fp16_key_bytes == 70 * 6 * 80 * 2
    assert cache.fp16_value_bytes == 70 * 6 * 48 * 2
    assert cache.reference_bytes == cache.fp16_key_bytes + cache.fp16_value_bytes


def test_residual_bytes_are_the_tail_and_the_sinks() -> None:
    cache = fed()
    assert cache.residual_fp16_bytes == (6 + 4) * 6 * (80 + 48) * 2


def test_permutations_are_four_bytes_a_channel_once() -> None:
    assert fed().perm_bytes == 4 * 3 * (80 + 48)
    assert fed(200).perm_bytes == 4 * 3 * (80 + 48)
    assert fed(15).perm_bytes == 0


@pytest.mark.parametrize("bits", range(1, 9))
def test_average_bits_hold_the_parameters(bits: int) -> None:
    assert fed(skvq_bits_key=bits).assigned_avg_bits == pytest.approx(bits + 3 * 32 / 80)


def test_the_kinds_add_up() -> None:
    cache = fed(skvq_center=True)
    count = cache.byte_count()
    assert count.codes + count.parameters == cache.compressed_key_bytes + cache.compressed_value_bytes
    assert count.exact + count.sinks == cache.residual_fp16_bytes
    assert count.side == cache.perm_bytes + 2 * 3 * 80
    assert count.foreign == 0


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize(
    "changes",
    [
        {}, {"skvq_reorder": False}, {"skvq_center": True}, {"skvq_rotate": True, "skvq_center": True},
        {"skvq_n_sink": 0}, {"skvq_n_sink": 16}, {"skvq_recent": 16}, {"skvq_defer_flush": True},
        {"skvq_param_bits": 8}, {"skvq_bits_key": 3, "skvq_bits_value": 7},
    ],
    ids=lambda changes: " ".join(changes) or "documented",
)  # fmt: skip
@pytest.mark.parametrize("tokens", [1, 15, 16, 70])
def test_what_is_counted_is_what_the_arrays_hold(
    changes: dict[str, Any], tokens: int, dtype: mx.Dtype
) -> None:
    config = skvq(**changes).config
    cache = config.make_cache(0)
    keys, values = rows(tokens, batch=2, heads=3, key_dim=80, value_dim=48, dtype=dtype)
    for start in range(0, tokens, 23):
        cache.update_and_fetch(keys[:, :, start : start + 23], values[:, :, start : start + 23])
        assert cache.resident_bytes == cache.byte_count().total
    assert cache.resident_bytes == sum(array.nbytes for array in cache.arrays())


def test_eight_bit_parameters_halve_what_windows_take() -> None:
    wide, narrow = (fed(1000, skvq_param_bits=bits).byte_count() for bits in (16, 8))
    assert narrow.codes == wide.codes
    # Four float16 numbers a group and chunk of 16 rows come on top of the half.
    assert narrow.parameters < wide.parameters * (0.5 + 8 / (16 * 4) + 0.01)


def test_memory_really_holds_no_more_than_is_counted() -> None:
    """MLX's own figure for the whole cache, not the sum of what it lists."""
    keys, values = rows(2048, heads=3)
    mx.eval(keys, values)
    mx.clear_cache()
    before = mx.get_active_memory()
    cache = skvq(skvq_window=128)
    for start in range(0, 2048, 256):
        cache.update_and_fetch(keys[:, :, start : start + 256], values[:, :, start : start + 256])
        mx.eval(cache.state)
    mx.clear_cache()
    held = mx.get_active_memory() - before
    arrays = len(cache.arrays())
    assert cache.byte_count().total == cache.resident_bytes
    assert held <= cache.byte_count().total * 1.02 + arrays * 16384
    # Anything that kept the exact rows alive would hold seven times as much.
    assert held < 0.3 * cache.reference_bytes


def test_reading_numbers_evaluates_nothing() -> None:
    """Rows whose values nobody computed: the one evaluation is the check at a flush."""
    cache = skvq()
    keys = mx.zeros((1, 2, 8, 64))
    cache.update_and_fetch(keys, keys)
    stats = layer_stats(3, cache)
    assert stats.slot == 3
    assert stats.replaced
    assert stats.tokens == 8
    assert stats.counted == ByteCount(exact=8 * 2 * 64 * 2 * 2)
    assert stats.resident_bytes == stats.counted.total == stats.reference_bytes
