"""A growing store of packed codes with their windows, and a reader that attends on them."""

import math
from typing import NamedTuple

import mlx.core as mx

from ..quantizers.packing import pack, packed_bytes, unpack
from ..quantizers.skvq import Window, assign, decode, to_float16
from ..telemetry import ByteCount

_KERNEL_GROUPS = (32, 64, 128)
_KERNEL_BITS = (1, 2, 3, 4, 5, 6, 8)
_USUAL_LARGEST = 16.0
"""What the largest value of the first rows becomes under the factor: later ones may be 28 times larger
before 8-bit windows saturate, and far smaller before they lose precision."""


class CodeReader(NamedTuple):
    """Codes as mlx's quantized kernels take them, for the length of one attention call."""

    words: mx.array
    """uint32, [B, H, n, D * bits / 32]."""
    window: Window
    """[B, H, n, G]."""
    group: int
    bits: int
    mean: mx.array | None
    """Added to every row, in code space, [1, H, 1, D]."""

    def scores(self, queries: mx.array, start: int, end: int) -> mx.array:
        """Products of queries in code space [B, H, R, D] with rows ``start`` to ``end``, [B, H, R, rows]."""
        products = self._product(queries, start, end, transpose=True)
        return products if self.mean is None else products + (queries * self.mean).sum(axis=-1, keepdims=True)

    def weighted(self, weights: mx.array, start: int, end: int) -> mx.array:
        """Sums of rows ``start`` to ``end`` under weights [B, H, R, rows], in code space, [B, H, R, D]."""
        rows = self._product(weights, start, end, transpose=False)
        return rows if self.mean is None else rows + weights.sum(axis=-1, keepdims=True) * self.mean

    def _product(self, left: mx.array, start: int, end: int, *, transpose: bool) -> mx.array:
        words, lo, scale = (part[:, :, start:end] for part in (self.words, *self.window))
        return mx.quantized_matmul(
            left, words, scale, lo, transpose=transpose, group_size=self.group, bits=self.bits
        )


class CodeStore:
    """Rows as packed codes, with a window (lo, scale) per row and group.

    Windows are stored in float16, or in 8-bit floats (4 bits exponent, 3 bits mantissa) under a factor
    that the first rows fix: so coarse a window costs little, because codes are chosen after it is rounded.

    Args:
        bits: 1 to 8, of one code. group: channels that share a window. param_bits: 16 or 8.
    """

    def __init__(self, bits: int, group: int, param_bits: int) -> None:
        self.bits = bits
        self.group = group
        self.param_bits = param_bits
        self.factor = 1.0
        """What 8-bit windows are multiplied with to decode them; a power of two."""
        self.dim = 0
        self.codes: mx.array | None = None
        """uint8, [B, H, n, bytes]."""
        self._windows: mx.array | None = None
        """lo and scale, float16 or uint8, [2, B, H, n, G]."""

    @property
    def readable(self) -> bool:
        """True when mlx's quantized kernels can read the store as it lies."""
        group = min(self.group, self.dim)
        return group in _KERNEL_GROUPS and self.dim % group == 0 and self.bits in _KERNEL_BITS

    def fit(self, largest: mx.array) -> None:
        """Fix the factor of 8-bit windows by the largest absolute value of the first rows, a scalar."""
        value: float = largest.item()  # type: ignore[assignment]
        if value > 0:
            self.factor = 2.0 ** math.floor(math.log2(value / _USUAL_LARGEST))

    def append(self, rows: mx.array, window: Window) -> None:
        """Round the windows to what is stored, choose the codes, keep both.

        Args:
            rows: float32, [B, H, S, D]. window: float32, [B, H, S, G].
        """
        self.dim = rows.shape[3]
        stored = self._rounded(window)
        exact = self._decoded_window(stored, mx.float32)
        codes = pack(assign(rows, exact, self.bits, self.group), self.bits)
        self.codes = _grown(self.codes, codes, axis=2)
        self._windows = _grown(self._windows, stored, axis=3)

    def _rounded(self, window: Window) -> mx.array:
        """The windows as they are stored."""
        if self.param_bits == 16:
            return to_float16(mx.stack([window.lo, window.scale]))
        levels = (1 << self.bits) - 1
        lo, step = (part / self.factor for part in window)
        if self.bits <= 4:
            return mx.to_fp8(mx.stack([lo, step]))
        # With many levels it is the ends that lose: both are rounded outward, by the half unit in the
        # last place that the nearest 8-bit float may be off.
        high = lo + step * levels
        below = mx.to_fp8(lo - mx.abs(lo) / 16)
        return mx.stack([below, mx.to_fp8((high - mx.from_fp8(below, mx.float32)) * (17 / 16 / levels))])

    def _decoded_window(self, stored: mx.array, dtype: mx.Dtype) -> Window:
        if self.param_bits == 16:
            values = stored.astype(dtype)
        else:
            values = (mx.from_fp8(stored, mx.float32) * self.factor).astype(dtype)
        return Window(values[0], values[1])

    def reader(self, dtype: mx.Dtype, mean: mx.array | None) -> CodeReader | None:
        """A reader that computes in ``dtype``, or None where no kernel reads the codes.

        Args:
            mean: added to every row, in code space, [1, H, 1, D].
        """
        if self.codes is None or self._windows is None or not self.readable:
            return None
        window = self._decoded_window(self._windows, dtype)
        return CodeReader(self.codes.view(mx.uint32), window, min(self.group, self.dim), self.bits, mean)

    def decoded(self, dtype: mx.Dtype) -> mx.array:
        """All rows, [B, H, n, D]; computed in float32 unless ``dtype`` holds float16 exactly."""
        if self.codes is None or self._windows is None:
            raise ValueError("The store is empty.")
        exact = dtype if dtype in (mx.float32, mx.float16) else mx.float32
        window = self._decoded_window(self._windows, exact)
        # On a CPU mlx's own decoding takes two to three times as long as these plain operations.
        if self.readable and mx.default_device() != mx.cpu:
            words, group = self.codes.view(mx.uint32), min(self.group, self.dim)
            rows = mx.dequantize(words, window.scale, window.lo, group_size=group, bits=self.bits)
        else:
            rows = decode(unpack(self.codes, self.bits, self.dim), window, self.group)
        return rows.astype(dtype)

    def arrays(self) -> list[mx.array]:
        """Every array held."""
        return [a for a in (self.codes, self._windows) if a is not None]

    def byte_count(self, rows: int, dim: int) -> ByteCount:
        """Bytes of so many rows of ``dim`` channels, over all heads and batch rows (closed form)."""
        groups = -(-dim // self.group)
        return ByteCount(
            codes=rows * packed_bytes(dim, self.bits), parameters=rows * groups * 2 * self.param_bits // 8
        )


def _grown(held: mx.array | None, fresh: mx.array, axis: int) -> mx.array:
    return mx.contiguous(fresh) if held is None else mx.concatenate([held, fresh], axis=axis)
