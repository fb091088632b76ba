"""Whatever rows come in: any shape and dtype, extremes, and rows that must be refused."""

from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.veloxquant_mlx.cache.feeding import apart, feed, rows, same, skvq
from veloxquant_mlx.errors import CacheError

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
NAN, INF = float("nan"), float("inf")

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
SPACES: list[dict[str, Any]] = [
    {}, {"skvq_reorder": False}, {"skvq_center": True}, {"skvq_rotate": True}, {"skvq_param_bits": 8},
    {"skvq_rotate": True, "skvq_center": True, "skvq_param_bits": 8},
]  # fmt: skip
every_space = pytest.mark.parametrize("space", SPACES, ids=lambda s: " ".join(s) or "documented")


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    bits=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    group=st.sampled_from((16, 32, 64, 128)),
    key_dim=st.sampled_from((8, 20, 32, 64, 80, 96, 128, 160)),
    value_dim=st.sampled_from((8, 20, 32, 64, 80, 96, 128, 160)),
    heads=st.integers(1, 4),
    batch=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    space=st.sampled_from(SPACES),
)
def test_rows_come_back_in_their_shape_and_dtype(
    dtype: mx.Dtype, bits: tuple[int, int], group: int, key_dim: int, value_dim: int, heads: int, batch: int,
    sizes: list[int], space: dict[str, Any],
) -> None:  # fmt: skip
    shape = {"heads": heads, "batch": batch, "key_dim": key_dim, "value_dim": value_dim}
    keys, values = rows(sum(sizes), dtype=dtype, **shape)
    changes = {"skvq_bits_key": bits[0], "skvq_bits_value": bits[1], "skvq_group_size": group}
    cache = skvq(**changes, **space)
    end = 0
    for size in sizes:
        start, end = end, end + size
        got = cache.update_and_fetch(keys[:, :, start:end], values[:, :, start:end])
        assert [part.shape for part in got] == [(batch, heads, end, key_dim), (batch, heads, end, value_dim)]
        assert [part.dtype for part in got] == [dtype, dtype]
        assert all(mx.isfinite(part).all().item() for part in got)


@every_dtype
@every_space
@pytest.mark.parametrize(("key_dim", "group"), [(64, 64), (80, 32), (64, 128), (20, 16), (96, 64)])
def test_eight_bits_are_close_in_every_dtype_and_ragged_shape(
    dtype: mx.Dtype, space: dict[str, Any], key_dim: int, group: int
) -> None:
    keys, values = rows(48, batch=2, key_dim=key_dim, value_dim=32, dtype=dtype)
    cache = skvq(skvq_bits_key=8, skvq_bits_value=8, skvq_group_size=group, **space)
    got_keys, got_values = cache.update_and_fetch(keys, values)
    # A step of a range of about 12 at 8 bits, and the roundings of the dtype and of 8-bit windows.
    room = 0.06 if dtype != mx.bfloat16 else 0.12
    assert apart(got_keys, keys) < room
    assert apart(got_values, values) < room


@every_dtype
@every_space
@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1000.0])
def test_constant_rows_come_back(dtype: mx.Dtype, space: dict[str, Any], value: float) -> None:
    constant = mx.full((1, 2, 32, 64), value, dtype=dtype)
    for got in skvq(skvq_n_sink=0, **space).update_and_fetch(constant, constant):
        if "skvq_param_bits" in space:
            # lo and scale have eight bits each and share their range with all rows of the chat. A
            # rotated constant row is the worst there is: one large channel, whose step the zeros around it
            # share.
            error = mx.linalg.norm((got - constant).astype(mx.float32), axis=-1)
            room = 1 / 4 if "skvq_rotate" in space else 1 / 8
            assert (error <= mx.linalg.norm(constant.astype(mx.float32), axis=-1) * room).all().item()
        else:
            assert apart(got, constant) <= 0.01 * abs(value)


@every_dtype
@every_space
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_the_ends_of_float16_stay_finite(dtype: mx.Dtype, space: dict[str, Any], bits: int) -> None:
    signs = mx.where(mx.random.uniform(shape=(1, 2, 32, 64), key=mx.random.key(1)) < 0.5, -1.0, 1.0)
    wild = (signs * 65504.0).astype(dtype)
    cache = skvq(skvq_n_sink=2, skvq_bits_key=bits, skvq_bits_value=bits, **space)
    for got in cache.update_and_fetch(wild, wild):
        assert got.dtype == dtype
        assert mx.isfinite(got).all().item()
        assert apart(got[:, :, :2], wild[:, :, :2]) <= 0.005 * 65504


@every_dtype
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8])
def test_the_ends_of_float16_come_back(dtype: mx.Dtype, bits: int) -> None:
    wild = (mx.array([65504.0, -65504.0] * 32) * mx.ones((1, 1, 16, 1))).astype(dtype)
    cache = skvq(
        skvq_n_sink=0, skvq_reorder=False, skvq_bits_key=bits, skvq_clip_search=False, skvq_clip_alpha=1.0
    )
    got, _ = cache.update_and_fetch(wild, wild)
    assert apart(got, wild) <= 0.01 * 65504


@every_space
def test_numbers_beyond_float16_are_clamped(space: dict[str, Any]) -> None:
    keys, values = rows(40)
    keys[0, 0, :, 3] = 1e9
    keys[0, 1, :, 5] = -1e30
    got, _ = skvq(**space).update_and_fetch(keys, values)
    assert mx.isfinite(got).all().item()
    # Sinks and tail are exact rows: clamped to the end of the range.
    for exact in (got[:, :, :4], got[:, :, 32:]):
        assert mx.all(exact[0, 0, :, 3] == 65504).item()
        assert mx.all(exact[0, 1, :, 5] == -65504).item()


def test_one_outlier_spoils_only_its_own_row_and_group() -> None:
    keys, values = rows(32)
    wild = mx.array(keys)
    wild[0, 0, 20, 0] = 3e4
    config: dict[str, Any] = {"skvq_reorder": False, "skvq_group_size": 32}
    calm_rows = feed(skvq(**config), keys, values, [32]).keys_and_values()[0]
    wild_rows = feed(skvq(**config), wild, values, [32]).keys_and_values()[0]
    differs = mx.any(calm_rows != wild_rows, axis=-1)
    assert differs.sum().item() == 1
    assert differs[0, 0, 20].item()
    assert mx.array_equal(calm_rows[0, 0, 20, 32:], wild_rows[0, 0, 20, 32:]).item()


@every_dtype
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("side", ["keys", "values"])
@pytest.mark.parametrize("held", [0, 10, 20])
def test_rows_that_are_not_finite_are_refused_at_a_flush(
    dtype: mx.Dtype, bad: float, side: str, held: int
) -> None:
    keys, values = rows(60, dtype=dtype)
    cache, twin = skvq(skvq_center=True), skvq(skvq_center=True)
    for one in (cache, twin):
        feed(one, keys, values, [held] if held else [])
    broken_keys, broken_values = mx.array(keys[:, :, held:40]), mx.array(values[:, :, held:40])
    (broken_keys if side == "keys" else broken_values)[0, 1, 7, 11] = bad
    with pytest.raises(CacheError) as caught:
        cache.update_and_fetch(broken_keys, broken_values)
    assert str(caught.value).startswith("Slot 5: ")
    assert "NaN or infinite" in str(caught.value)
    assert str(caught.value).endswith(".")
    assert same(cache, twin)
    assert (cache.offset, cache.quantized_tokens) == (twin.offset, twin.quantized_tokens)
    for one in (cache, twin):
        feed(one, keys, values, [60 - held])
    assert same(cache, twin)


def test_rows_that_were_not_finite_before_are_refused_when_they_would_become_codes() -> None:
    """Looking at every row would wait for every step: what is not flushed is not looked at."""
    keys, values = rows(32)
    keys[0, 0, 3, 3] = NAN
    cache = feed(skvq(), keys, values, [10])
    with pytest.raises(CacheError, match="Slot 5"):
        cache.update_and_fetch(keys[:, :, 10:], values[:, :, 10:])
    assert (cache.offset, cache.quantized_tokens) == (10, 0)


def test_a_row_that_stays_exact_is_looked_at_when_it_would_become_a_code() -> None:
    keys, values = rows(64)
    told: dict[str, Any] = {"skvq_window": 8, "skvq_recent": 8}
    whole = feed(skvq(**told), keys, values, [1] * 24)
    keys[0, 0, 23, 3] = NAN
    broken = feed(skvq(**told), keys, values, [1] * 24)
    assert broken.frontier == whole.frontier == 16
    feed(broken, keys, values, [1] * 7)
    with pytest.raises(CacheError, match="at token 16 or after"):
        feed(broken, keys, values, [1])
    assert (broken.offset, broken.frontier) == (31, 16)


@pytest.mark.parametrize("limit", [10, 40])
def test_a_full_context_is_refused_and_the_cache_stays_as_it_was(limit: int) -> None:
    keys, values = rows(64)
    cache = feed(skvq(skvq_max_ctx=limit), keys, values, [limit - 2])
    twin = feed(skvq(), keys, values, [limit - 2])
    with pytest.raises(CacheError) as caught:
        cache.update_and_fetch(keys[:, :, :3], values[:, :, :3])
    assert str(caught.value).startswith("Slot 5: ")
    assert str(limit) in str(caught.value)
    assert same(cache, twin)
    assert cache.offset == limit - 2
    feed(cache, keys, values, [2])
    assert cache.offset == limit


def test_no_limit_is_the_default() -> None:
    assert skvq().config.skvq_max_ctx is None


@pytest.mark.parametrize(
    "other", [{"batch": 2}, {"heads": 3}, {"key_dim": 32}, {"value_dim": 32}], ids=lambda o: next(iter(o))
)
def test_rows_of_another_shape_are_refused_and_the_cache_stays_as_it_was(other: dict[str, int]) -> None:
    keys, values = rows(20)
    cache, twin = (feed(skvq(), keys, values, [20]) for _ in range(2))
    with pytest.raises(CacheError, match="Slot 5: rows of shape"):
        cache.update_and_fetch(*rows(4, **other))
    assert same(cache, twin)
    assert cache.offset == 20


def test_batch_rows_and_heads_do_not_touch_one_another() -> None:
    keys, values = rows(40, batch=3, heads=2)
    together = feed(skvq(skvq_reorder=False), keys, values, [40]).keys_and_values()[0]
    for index in range(3):
        alone = feed(skvq(skvq_reorder=False), keys[index : index + 1], values[index : index + 1], [40])
        assert mx.array_equal(alone.keys_and_values()[0], together[index : index + 1]).item()


@every_dtype
def test_exact_rows_are_kept_in_the_model_s_16_bits(dtype: mx.Dtype) -> None:
    keys, values = rows(20, dtype=dtype)
    cache = feed(skvq(), keys, values, [20])
    kept = mx.bfloat16 if dtype == mx.bfloat16 else mx.float16
    assert {part.dtype for part in cache.keys_and_values()} == {kept}
    assert cache.keys.dtype == cache.values.dtype == kept
    if dtype != mx.float32:
        # The exact rows: sinks, then the tail.
        assert mx.array_equal(cache.keys[:, :, :4], keys[:, :, :4]).item()
        assert mx.array_equal(cache.keys[:, :, 4:], keys[:, :, 16:]).item()
        assert mx.array_equal(cache.keys_and_values()[0][:, :, :4], keys[:, :, :4]).item()


def test_an_empty_cache_has_no_rows_to_give() -> None:
    with pytest.raises(CacheError, match="Slot 5: the cache is empty"):
        skvq().keys_and_values()
