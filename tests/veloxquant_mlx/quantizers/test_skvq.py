"""SKVQ's arithmetic: what a code stands for, and how well the window of a group is chosen."""

from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veloxquant_mlx.quantizers.packing import pack
from veloxquant_mlx.quantizers.skvq import (
    FLOAT16_MAX,
    Window,
    assign,
    channel_order,
    clip_grid,
    decode,
    find_windows,
    hadamard,
    to_float16,
)

properties = settings(max_examples=40, deadline=None)
widths = st.integers(1, 8)
seeds = st.integers(0, 2**32 - 1)
groups = st.sampled_from((16, 32, 64, 128))


def _rows(seed: int, count: int, size: int, scale: float = 1.0, shift: float = 0.0) -> mx.array:
    values = np.random.default_rng(seed).normal(shift, scale, (count, size))
    return mx.array(values.astype(np.float32))


class Encoded(NamedTuple):
    """What a store keeps of rows: codes, and windows as float16 holds them (in float32 here)."""

    codes: mx.array
    window: Window


def grid(bits: int) -> tuple[float, ...]:
    return clip_grid(bits, bell_shaped=False)


def encode(rows: mx.array, bits: int, group: int, alphas: tuple[float, ...], refinements: int = 1) -> Encoded:
    found = find_windows(rows, bits, group, alphas, refinements)
    window = Window(*(to_float16(part).astype(mx.float32) for part in found))
    return Encoded(assign(rows, window, bits, group), window)


def back_from(found: Encoded, group: int) -> mx.array:
    return decode(found.codes, found.window, group)


def _error(
    rows: mx.array, bits: int, group: int, alphas: tuple[float, ...], refinements: int = 1
) -> mx.array:
    back = back_from(encode(rows, bits, group, alphas, refinements), group)
    return mx.square(back - rows).sum(axis=-1)


@properties
@given(bits=widths, size=st.integers(1, 150), group=groups, seed=seeds)
def test_shapes_and_types_for_any_size(bits: int, size: int, group: int, seed: int) -> None:
    found = encode(_rows(seed, 3, size), bits, group, grid(bits))
    assert found.codes.shape == (3, size)
    assert found.codes.dtype == mx.uint8
    assert found.codes.max().item() < 1 << bits
    for parameter in found.window:
        assert parameter.shape == (3, -(-size // group))
        assert parameter.dtype == mx.float32
    assert found.window.scale.min().item() >= 0


@properties
@given(
    bits=st.integers(2, 8), size=st.integers(1, 150), group=groups, seed=seeds,
    scale=st.floats(0.01, 100), shift=st.floats(-100, 100),
)  # fmt: skip
def test_without_clipping_no_value_is_off_by_more_than_half_a_step(
    bits: int, size: int, group: int, seed: int, scale: float, shift: float
) -> None:
    rows = _rows(seed, 3, size, scale, shift)
    found = encode(rows, bits, group, (1.0,), 0)
    back = back_from(found, group)
    step = mx.repeat(found.window.scale, group, axis=-1)[:, :size]
    # Storing lo and the step at 16 bits moves the ends of the window by half a unit of theirs.
    levels = (1 << bits) - 1
    ends = (mx.abs(rows).max() + levels * step) * 2.0**-11
    assert mx.all(mx.abs(back - rows) <= step / 2 + ends + 1e-6).item()


@properties
@given(bits=widths, size=st.integers(2, 150), group=groups, seed=seeds)
def test_codes_are_the_nearest_to_the_stored_parameters(bits: int, size: int, group: int, seed: int) -> None:
    """Rounding the parameters after the codes were chosen would leave codes that are not the nearest."""
    rows = _rows(seed, 3, size, scale=3.0, shift=50.0)
    found = encode(rows, bits, group, grid(bits))
    chosen = mx.abs(back_from(found, group) - rows)
    for step in (-1, 1):
        moved = mx.clip(found.codes.astype(mx.int32) + step, 0, (1 << bits) - 1).astype(mx.uint8)
        other = mx.abs(decode(moved, found.window, group) - rows)
        assert mx.all(chosen <= other + 1e-5).item()


@properties
@given(bits=st.integers(2, 8), size=st.integers(2, 150), group=groups, seed=seeds, shift=st.floats(-100, 100))
def test_the_search_is_never_worse_than_the_whole_range(
    bits: int, size: int, group: int, seed: int, shift: float
) -> None:
    rows = _rows(seed, 4, size, shift=shift)
    whole = mx.sqrt(_error(rows, bits, group, (1.0,), 0))
    # Storing a window at 16 bits comes last and moves a row by at most this much, either way.
    moved = size**0.5 * mx.abs(rows).max().item() * 1.5 * 2.0**-11
    for refinements in (0, 1, 2):
        searched = mx.sqrt(_error(rows, bits, group, grid(bits), refinements))
        assert mx.all(searched <= whole + 2 * moved).item()


@properties
@given(bits=st.integers(2, 8), seed=seeds)
def test_the_search_finds_the_best_factor_of_its_grid(bits: int, seed: int) -> None:
    rows = _rows(seed, 4, 32)
    searched = mx.sqrt(_error(rows, bits, 32, grid(bits), 0))
    best = mx.stack([mx.sqrt(_error(rows, bits, 32, (alpha,), 0)) for alpha in grid(bits)]).min(axis=0)
    moved = 32**0.5 * mx.abs(rows).max().item() * 1.5 * 2.0**-11
    assert mx.all(searched <= best + 2 * moved).item()


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_grid_holds_the_whole_range_and_reaches_half(bits: int) -> None:
    assert max(grid(bits)) == 1.0
    assert min(grid(bits)) == 0.5


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_one_factor_serves_bell_shaped_groups(bits: int) -> None:
    """What the search is spared for rotated rows: no other factor is much better on a normal source."""
    rows = _rows(17, 256, 64)
    (factor,) = clip_grid(bits, bell_shaped=True)
    errors = [_error(rows, bits, 64, (f / 100,), 2).sum().item() for f in range(50, 101, 5)]
    assert _error(rows, bits, 64, (factor,), 2).sum().item() <= 1.06 * min(errors)


@properties
@given(bits=st.integers(2, 8), seed=seeds, shift=st.sampled_from((0.0, 1.0, 30.0)), scale=st.floats(0.1, 10))
def test_fitting_a_window_to_its_codes_lessens_the_error(
    bits: int, seed: int, shift: float, scale: float
) -> None:
    rows = _rows(seed, 64, 64, scale, shift)
    errors = [_error(rows, bits, 64, grid(bits), n).sum().item() ** 0.5 for n in (0, 1, 2)]
    moved = rows.size**0.5 * mx.abs(rows).max().item() * 1.5 * 2.0**-11
    assert errors[1] <= errors[0] + moved
    assert errors[2] <= errors[1] + moved


@pytest.mark.parametrize("bits", [2, 3])
def test_fitting_gains_where_the_search_has_one_factor_only(bits: int) -> None:
    rows = _rows(19, 256, 64)
    factors = clip_grid(bits, bell_shaped=True)
    assert _error(rows, bits, 64, factors, 2).sum() < 0.97 * _error(rows, bits, 64, factors, 0).sum()


def test_at_two_bits_the_search_gains_a_lot_on_a_normal_source() -> None:
    rows = _rows(3, 512, 64)
    searched = _error(rows, 2, 64, grid(2)).sum().item() / rows.size
    assert searched < 0.12  # Lloyd-Max reaches .1175 with levels made for the source.
    assert searched < 0.6 * _error(rows, 2, 64, (1.0,), 0).sum().item() / rows.size


def test_a_window_shrinks_toward_the_middle_of_its_group() -> None:
    rows = mx.array([[100.0, 101.0, 102.0, 104.0] * 4])
    lo, scale = encode(rows, 2, 16, (0.5,), 0).window
    assert lo.item() == pytest.approx(101.0, abs=0.1)
    assert (lo + 3 * scale).item() == pytest.approx(103.0, abs=0.1)


@properties
@given(size=st.integers(1, 150), group=groups, seed=seeds)
def test_one_bit_decodes_to_mean_and_mean_deviation(size: int, group: int, seed: int) -> None:
    rows = _rows(seed, 2, size, shift=1.0)
    back = np.array(back_from(encode(rows, 1, group, grid(1)), group))
    for start in range(0, size, group):
        part = np.array(rows)[:, start : start + group]
        mean = part.mean(axis=1, keepdims=True)
        deviation = np.abs(part - mean).mean(axis=1, keepdims=True)
        found = back[:, start : start + group]
        above = np.isclose(found, mean + deviation, rtol=2e-3, atol=2e-3)
        below = np.isclose(found, mean - deviation, rtol=2e-3, atol=2e-3)
        assert np.all(above | below)
        # Right at the mean, rounding decides.
        clear = np.abs(part - mean) > 4e-3
        assert np.all(np.where(part > mean, above, below)[clear])


@properties
@given(bits=widths, size=st.integers(1, 150), group=groups, value=st.floats(-FLOAT16_MAX, FLOAT16_MAX))
def test_a_constant_row_comes_back_as_float16_holds_it(
    bits: int, size: int, group: int, value: float
) -> None:
    rows = mx.full((2, size), value)
    back = back_from(encode(rows, bits, group, grid(bits)), group)
    # The mean of equal numbers may be off by the last bit of its sum.
    assert mx.allclose(back, to_float16(rows).astype(mx.float32), rtol=1e-3, atol=1e-7).item()


@properties
@given(bits=widths, group=groups, size=st.integers(2, 150), big=st.sampled_from((1e4, FLOAT16_MAX, 1e30)))
def test_a_huge_outlier_stays_finite_and_spoils_only_its_group(
    bits: int, group: int, size: int, big: float
) -> None:
    calm = _rows(5, 2, size)
    wild = mx.array(calm)
    wild[0, 0] = big
    back = back_from(encode(wild, bits, group, grid(bits)), group)
    still = back_from(encode(calm, bits, group, grid(bits)), group)
    assert mx.isfinite(back).all().item()
    assert mx.array_equal(back[0, group:], still[0, group:]).item()
    assert mx.array_equal(back[1], still[1]).item()


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_ends_of_float16_come_back(bits: int) -> None:
    rows = mx.array([[FLOAT16_MAX, -FLOAT16_MAX] * 16])
    back = back_from(encode(rows, bits, 32, (1.0,)), 32)
    assert mx.allclose(back, rows, rtol=1e-3).item()


def test_parameters_are_never_infinite() -> None:
    rows = mx.array([[1e38, -1e38] * 16])
    for bits in range(1, 9):
        found = encode(rows, bits, 32, (1.0,))
        assert all(mx.isfinite(part).all().item() for part in found.window)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_mlx_decodes_our_codes_to_the_same_rows(bits: int, group: int) -> None:
    found = encode(_rows(11, 6, 128, scale=2.0, shift=0.5), bits, group, grid(bits))
    lo, scale = found.window
    words = pack(found.codes, bits).view(mx.uint32)
    theirs = mx.dequantize(words, scale, lo, group_size=group, bits=bits)
    assert mx.allclose(theirs, back_from(found, group), rtol=1e-6, atol=1e-6).item()


@properties
@given(bits=widths, size=st.integers(1, 150), group=groups, seed=seeds)
def test_a_row_s_codes_depend_on_that_row_alone(bits: int, size: int, group: int, seed: int) -> None:
    rows = _rows(seed, 5, size)
    together = encode(rows, bits, group, grid(bits))
    alone = [encode(rows[i : i + 1], bits, group, grid(bits)) for i in range(5)]
    assert mx.array_equal(together.codes, mx.concatenate([one.codes for one in alone])).item()
    for i in range(2):
        assert mx.array_equal(together.window[i], mx.concatenate([one.window[i] for one in alone])).item()


@properties
@given(bits=widths, size=st.integers(2, 150), group=groups, extra=st.integers(1, 15), seed=seeds)
def test_a_ragged_group_is_not_spoilt_by_padding(
    bits: int, size: int, group: int, extra: int, seed: int
) -> None:
    """The rest of a row is coded as if it stood alone: far from zero, padding would widen its window."""
    rest = min(extra, size)
    rows = _rows(seed, 2, group + rest, shift=300.0)
    last = encode(rows[:, group:], bits, group, grid(bits))
    whole = encode(rows, bits, group, grid(bits))
    assert mx.array_equal(whole.codes[:, group:], last.codes).item()
    assert mx.array_equal(whole.window.scale[:, 1:], last.window.scale).item()
    assert mx.array_equal(whole.window.lo[:, 1:], last.window.lo).item()


def test_more_bits_never_make_it_worse() -> None:
    rows = _rows(13, 64, 64)
    errors = [_error(rows, bits, 32, grid(bits)).sum().item() for bits in range(1, 9)]
    assert errors == sorted(errors, reverse=True)


def test_channel_order_sorts_every_head_by_its_channel_means() -> None:
    offsets = np.random.default_rng(1).permuted(np.tile(np.arange(32.0), (3, 1)), axis=1)
    noise = np.random.default_rng(2).normal(0, 0.1, (2, 3, 64, 32))
    order = channel_order(mx.array((offsets[None, :, None] + noise).astype(np.float32)))
    assert order.dtype == mx.int32
    assert np.array_equal(np.array(order), np.argsort(offsets, axis=1))


@pytest.mark.parametrize("size", [2, 12, 16, 20, 28, 32, 64, 80, 96, 128, 192, 256])
def test_hadamard_is_a_rotation(size: int) -> None:
    matrix = hadamard(size)
    assert matrix is not None
    assert mx.allclose(matrix @ matrix.T, mx.eye(size), atol=1e-5).item()
    assert mx.abs(mx.abs(matrix) - size**-0.5).max().item() < 1e-5


@pytest.mark.parametrize("size", [6, 10, 36, 72, 100])
def test_a_size_without_hadamard_matrix_is_told_by_none(size: int) -> None:
    assert hadamard(size) is None
