"""Packing: nothing is lost, nothing is wasted, and mlx reads it."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veloxquant_mlx.quantizers.packing import in_lanes, lanes, out_of_lanes, pack, packed_bytes, unpack

widths = st.integers(1, 8)


def _codes(seed: int, shape: tuple[int, ...], bits: int) -> mx.array:
    return mx.array(np.random.default_rng(seed).integers(0, 1 << bits, shape, dtype=np.uint8))


@settings(max_examples=60, deadline=None)
@given(bits=widths, count=st.integers(1, 150), rows=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_what_is_packed_comes_back(bits: int, count: int, rows: int, seed: int) -> None:
    codes = _codes(seed, (rows, 2, count), bits)
    stream = pack(codes, bits)
    assert stream.dtype == mx.uint8
    assert stream.shape == (rows, 2, packed_bytes(count, bits))
    assert mx.array_equal(unpack(stream, bits, count), codes).item()


@settings(max_examples=60, deadline=None)
@given(bits=widths, count=st.integers(1, 150), seed=st.integers(0, 2**32 - 1))
def test_a_row_is_one_little_endian_bit_stream(bits: int, count: int, seed: int) -> None:
    codes = _codes(seed, (count,), bits)
    number = sum(code << (bits * i) for i, code in enumerate(codes.tolist()))
    expected = number.to_bytes(packed_bytes(count, bits), "little")
    assert bytes(pack(codes, bits).tolist()) == expected


@given(bits=widths, count=st.integers(0, 5000))
def test_a_row_takes_its_bits_and_less_than_a_byte_more(bits: int, count: int) -> None:
    assert 0 <= 8 * packed_bytes(count, bits) - bits * count < 8


@pytest.mark.parametrize("bits", range(1, 9))
def test_extreme_codes_do_not_leak_into_their_neighbours(bits: int) -> None:
    full = (1 << bits) - 1
    codes = mx.array([[0, full] * 9, [full, 0] * 9], dtype=mx.uint8)
    assert mx.array_equal(unpack(pack(codes, bits), bits, 18), codes).item()


@given(bits=widths, count=st.integers(1, 150), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_codes_are_weighted_sums_of_masked_bytes(bits: int, count: int, seed: int) -> None:
    codes = _codes(seed, (3, count), bits)
    found = lanes(bits, count)
    numbers = found.numbers(pack(codes, bits))
    assert mx.array_equal(numbers @ found.matrix.T, codes.astype(mx.float32)).item()
    assert mx.array_equal(found.matrix @ found.ones, mx.ones(count)).item()


@given(bits=widths, count=st.integers(1, 150), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_numbers_of_codes_put_in_lanes_come_out_in_order(bits: int, count: int, seed: int) -> None:
    codes = _codes(seed, (3, count), bits)
    placed = in_lanes(codes, bits)
    assert mx.array_equal(out_of_lanes(placed, bits), codes).item()
    found = lanes(bits, count)
    assert mx.array_equal(found.codes(found.numbers(pack(placed, bits))), codes.astype(mx.float32)).item()


@given(bits=widths, count=st.integers(1, 70), rows=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_planes_are_the_same_numbers_lane_by_lane(bits: int, count: int, rows: int, seed: int) -> None:
    stream = pack(_codes(seed, (2, rows, count), bits), bits)
    found = lanes(bits, count)
    by_row = mx.unflatten(found.numbers(stream), -1, found.masks.shape)
    assert mx.array_equal(found.planes(stream), by_row.swapaxes(-3, -2)).item()


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_mlx_reads_our_stream(bits: int, group: int) -> None:
    codes = _codes(7, (5, 128), bits)
    ones = mx.ones((5, 128 // group))
    read = mx.dequantize(pack(codes, bits).view(mx.uint32), ones, 0 * ones, group_size=group, bits=bits)
    assert mx.array_equal(read, codes.astype(mx.float32)).item()


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_we_read_mlx_s_stream(bits: int) -> None:
    words, scales, biases = mx.quantize(mx.random.normal((5, 128)), group_size=64, bits=bits)
    codes = unpack(words.view(mx.uint8), bits, 128).astype(mx.float32)
    ours = codes * mx.repeat(scales, 64, axis=-1) + mx.repeat(biases, 64, axis=-1)
    theirs = mx.dequantize(words, scales, biases, group_size=64, bits=bits)
    assert mx.allclose(ours, theirs, rtol=1e-6, atol=1e-6).item()
