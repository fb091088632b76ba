"""Packing of small integers: one little-endian bit stream per row.

Eight codes of ``b`` bits fill exactly ``b`` bytes, so they are put together in one 64-bit word whatever
their width from 1 to 8. Seen as uint32 words the stream is the layout of ``mx.quantize``, which is why
``mx.quantized_matmul`` can read it. Elsewhere it is read through ``Lanes``.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np

_ROWS_AT_ONCE = 8


def packed_bytes(count: int, bits: int) -> int:
    """Bytes that ``count`` codes of ``bits`` bits take in one row."""
    return (count * bits + 7) // 8


def pack(codes: mx.array, bits: int) -> mx.array:
    """Pack codes along the last axis.

    Args:
        codes: uint8, [..., D], every value below 2**bits.
        bits: 1 to 8.

    Returns:
        uint8, [..., ceil(D * bits / 8)].
    """
    if bits == 8:
        return codes
    count = codes.shape[-1]
    if count % 8:
        codes = mx.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -count % 8)])
    eight = mx.unflatten(codes, -1, (-1, 8)).astype(mx.uint64)
    # No two codes share a bit, so their sum is all of them side by side.
    words = (eight << mx.arange(0, 8 * bits, bits, dtype=mx.uint64)).sum(axis=-1, keepdims=True)
    stream = mx.flatten(words.view(mx.uint8)[..., :bits], -2)
    return stream[..., : packed_bytes(count, bits)]


def unpack(stream: mx.array, bits: int, count: int) -> mx.array:
    """Undo ``pack``.

    Args:
        stream: uint8, [..., ceil(count * bits / 8)].
        bits: 1 to 8.
        count: number of codes in a row.

    Returns:
        uint8, [..., count].
    """
    if bits == 8:
        return stream
    found = lanes(bits, count)
    return mx.round(found.numbers(stream) @ found.matrix.T).astype(mx.uint8)


class Lanes(NamedTuple):
    """How the bytes of a row become numbers by masking alone.

    Lane ``l`` of byte ``i`` is ``byte & masks[l, i]``: one code, or the part of one that lies in this byte,
    times a power of two. Codes are sums of numbers: ``code = matrix @ numbers``. In a product with rows the
    matrix can be applied to the other factor, which is small, so no code is shifted or put in its place.
    """

    masks: mx.array
    """uint8, [L, bytes]; 0 where a byte has fewer than L parts."""
    matrix: mx.array
    """float32, [codes, L * bytes]."""
    ones: mx.array
    """Numbers of which every code is 1, float32 [L * bytes]: ``matrix @ ones`` is 1."""
    wide_masks: Mapping[int, mx.array]
    """The masks of so many rows one after another, uint8 [L, 1, rows * bytes]."""
    units: mx.array | None
    """What each number is multiplied with to be a code, float32 [L * bytes], where bytes hold whole codes
    and a row whole bytes."""

    def numbers(self, stream: mx.array) -> mx.array:
        """The numbers of each row [..., bytes] of a stream, float32 [..., L * bytes]."""
        return mx.flatten(mx.expand_dims(stream, -2) & self.masks, -2).astype(mx.float32)

    def planes(self, stream: mx.array) -> mx.array:
        """The same numbers of rows [..., n, bytes] lane by lane, float32 [..., L, n, bytes].

        Several rows meet the masks at once, which takes a CPU half the time that single ones do.
        """
        *lead, rows, width = stream.shape
        several = math.gcd(rows, _ROWS_AT_ONCE)
        masked = stream.reshape(*lead, 1, rows // several, several * width) & self.wide_masks[several]
        return masked.reshape(*lead, len(self.masks), rows, width).astype(mx.float32)

    def codes(self, sums: mx.array) -> mx.array:
        """Sums over numbers [..., L * bytes] as sums over codes [..., codes] that ``in_lanes`` had put so."""
        return sums @ self.matrix.T if self.units is None else sums * self.units


def in_lanes(codes: mx.array, bits: int) -> mx.array:
    """Codes along the last axis in the order in which, once packed, each lane has them side by side.

    Where bytes hold whole codes, neighbours then lie in neighbouring bytes of one lane, and sums over numbers
    come out in order: to change the order of the sums would take a step of decoding longer than to add them.
    Other widths stay as they are.
    """
    depth = _whole_lanes(codes.shape[-1], bits)
    return _transposed(codes, depth) if depth > 1 else codes


def out_of_lanes(codes: mx.array, bits: int) -> mx.array:
    """Undo ``in_lanes``."""
    depth = _whole_lanes(codes.shape[-1], bits)
    return _transposed(codes, codes.shape[-1] // depth) if depth > 1 else codes


def _transposed(codes: mx.array, parts: int) -> mx.array:
    """Codes along the last axis as so many equal parts, the first of every part first."""
    return mx.flatten(mx.unflatten(codes, -1, (parts, -1)).swapaxes(-1, -2), -2)


def _whole_lanes(count: int, bits: int) -> int:
    """Lanes of a row of whole bytes that hold whole codes each; 0 for other rows."""
    return 8 // bits if 8 % bits == 0 and count * bits % 8 == 0 else 0


@lru_cache(maxsize=64)
def lanes(bits: int, count: int) -> Lanes:
    """The lanes of a row of ``count`` codes of ``bits`` bits, shared and evaluated."""
    parts: list[list[tuple[int, int, float]]] = [[] for _ in range(packed_bytes(count, bits))]
    for code in range(count):
        first = code * bits
        for byte in range(first // 8, (first + bits - 1) // 8 + 1):
            low, high = max(first, 8 * byte), min(first + bits, 8 * byte + 8)
            shift = low - 8 * byte
            mask = ((1 << (high - low)) - 1) << shift
            parts[byte].append((code, mask, 2.0 ** (low - first - shift)))
    depth = max(len(part) for part in parts)
    masks = np.zeros((depth, len(parts)), np.uint8)
    matrix = np.zeros((count, depth, len(parts)), np.float32)
    ones = np.zeros((depth, len(parts)), np.float32)
    for byte, part in enumerate(parts):
        for lane, (code, mask, weight) in enumerate(part):
            masks[lane, byte] = mask
            matrix[code, lane, byte] = weight
            # A code that lies in two bytes takes its 1 from the first.
            if byte == code * bits // 8:
                ones[lane, byte] = 1 / weight
    units = None
    if _whole_lanes(count, bits):
        units = mx.array(np.repeat(2.0 ** -np.arange(0, 8, bits, dtype=np.float32), len(parts)))
    wide = {rows: mx.array(np.tile(masks, rows)[:, None]) for rows in (1, 2, 4, _ROWS_AT_ONCE)}
    found = Lanes(
        mx.array(masks), mx.array(matrix.reshape(count, -1)), mx.array(ones.reshape(-1)), wide, units
    )
    mx.eval(found.masks, found.matrix, found.ones, *wide.values(), *([] if units is None else [units]))
    return found
