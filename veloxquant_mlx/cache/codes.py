"""A growing store of packed codes with their windows, and a reader that attends on them."""

from typing import NamedTuple

import mlx.core as mx

from ..quantizers.packing import pack, packed_bytes, unpack
from ..quantizers.skvq import Window, assign, decode, to_float16
from ..telemetry import ByteCount

_KERNEL_GROUPS = (32, 64, 128)
_KERNEL_BITS = (1, 2, 3, 4, 5, 6, 8)


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

    Windows are float16, or 8-bit codes within the range they have in their chunk. Rows come in whole
    chunks; the first chunk lacks its leading sink rows, which are kept elsewhere.

    Args:
        bits: 1 to 8, of one code. group: channels that share a window.
        param_bits: 16 or 8, of lo and of scale.
        chunk: rows of a chunk. sinks: rows missing from the first, at most ``chunk``.
    """

    def __init__(self, bits: int, group: int, param_bits: int, chunk: int, sinks: int) -> None:
        self.bits = bits
        self.group = group
        self.param_bits = param_bits
        self.chunk = chunk
        self.sinks = sinks
        self.count = 0
        """Rows held."""
        self.dim = 0
        self.codes: mx.array | None = None
        """uint8, [B, H, n, bytes]."""
        self._windows: mx.array | None = None
        """lo and scale: float16, [2, B, H, n, G]; or uint8 with a place for every sink row,
        [2, B, H, sinks + n, G], so that each chunk is whole."""
        self._ranges: mx.array | None = None
        """With 8-bit parameters lowest value and step of each chunk: float16, [2, 2, B, H, chunks, G]."""

    @property
    def readable(self) -> bool:
        """True when mlx's quantized kernels can read the store as it lies."""
        group = min(self.group, self.dim)
        return group in _KERNEL_GROUPS and self.dim % group == 0 and self.bits in _KERNEL_BITS

    def append(self, rows: mx.array, window: Window) -> None:
        """Round the windows to what is stored, choose the codes, keep both.

        Args:
            rows: float32, [B, H, S, D]. window: float32, [B, H, S, G].
        """
        self.dim = rows.shape[3]
        both = mx.stack([window.lo, window.scale])  # [2, B, H, S, G]
        if self.param_bits == 16:
            stored = to_float16(both)
            exact = stored.astype(mx.float32)
        else:
            missing = self.sinks if self.count == 0 else 0
            stored, ranges = _to_bytes(both, self.chunk, missing)
            exact = _from_bytes(stored, ranges)[:, :, :, missing:]
            self._ranges = _grown(self._ranges, ranges, axis=4)
        codes = pack(assign(rows, Window(exact[0], exact[1]), self.bits, self.group), self.bits)
        self.codes = _grown(self.codes, codes, axis=2)
        self._windows = _grown(self._windows, stored, axis=3)
        self.count += rows.shape[2]

    def _window(self, dtype: mx.Dtype) -> Window:
        """The windows as they count for decoding, [B, H, n, G] in ``dtype``."""
        if self._windows is None:
            raise ValueError("The store is empty.")
        if self._ranges is None:
            values = self._windows.astype(dtype)
        else:
            values = _from_bytes(self._windows, self._ranges)[:, :, :, self.sinks :].astype(dtype)
        return Window(values[0], values[1])

    def reader(self, dtype: mx.Dtype, mean: mx.array | None) -> CodeReader | None:
        """A reader that computes in ``dtype``, or None where no kernel reads the codes.

        Args:
            mean: added to every row, in code space, [1, H, 1, D].
        """
        if self.codes is None or not self.readable:
            return None
        window = self._window(dtype)
        return CodeReader(self.codes.view(mx.uint32), window, min(self.group, self.dim), self.bits, mean)

    def decoded(self, dtype: mx.Dtype) -> mx.array:
        """All rows, [B, H, n, D]; computed in float32 unless ``dtype`` holds float16 exactly."""
        if self.codes is None:
            raise ValueError("The store is empty.")
        exact = dtype if dtype in (mx.float32, mx.float16) else mx.float32
        reader = self.reader(exact, None)
        if reader is None:
            rows = decode(unpack(self.codes, self.bits, self.dim), self._window(exact), self.group)
        else:
            lo, scale = reader.window
            rows = mx.dequantize(reader.words, scale, lo, group_size=reader.group, bits=self.bits)
        return rows.astype(dtype)

    def arrays(self) -> list[mx.array]:
        """Every array held."""
        return [a for a in (self.codes, self._windows, self._ranges) if a is not None]

    def byte_count(self, batch: int, heads: int) -> ByteCount:
        """Bytes of what is held (counted)."""
        return self.predict(self.count, batch * heads, self.dim)

    def predict(self, rows: int, heads: int, dim: int) -> ByteCount:
        """Bytes of so many rows over all heads and batch rows."""
        if not rows:
            return ByteCount()
        groups = -(-dim // self.group)
        if self.param_bits == 16:
            parameters = rows * groups * 4
        else:
            with_sinks = rows + self.sinks
            parameters = groups * (2 * with_sinks + 8 * (with_sinks // self.chunk))
        return ByteCount(codes=heads * rows * packed_bytes(dim, self.bits), parameters=heads * parameters)


def _to_bytes(values: mx.array, chunk: int, missing: int) -> tuple[mx.array, mx.array]:
    """8-bit codes of values [2, B, H, S, G] within each chunk's range, and the ranges.

    ``missing`` leading rows of the first chunk take the place of the first row, so as not to widen
    its range. Returns uint8 [2, B, H, missing + S, G] and float16 [2, 2, B, H, chunks, G].
    """
    if missing:
        first = mx.broadcast_to(values[:, :, :, :1], (*values.shape[:3], missing, values.shape[4]))
        values = mx.concatenate([first, values], axis=3)
    two, batch, heads, rows, groups = values.shape
    parts = values.reshape(two, batch, heads, rows // chunk, chunk, groups)
    low, high = parts.min(axis=4), parts.max(axis=4)
    base = to_float16(low)
    # A little wider, so that rounding base and step to 16 bits leaves the highest value within reach.
    step = to_float16((high - base.astype(mx.float32)) * (1.001 / 255))
    spread = step.astype(mx.float32)[..., None, :]
    inverse = mx.where(spread > 0, 1 / mx.maximum(spread, 1e-30), 0.0)
    codes = mx.clip(mx.round((parts - base.astype(mx.float32)[..., None, :]) * inverse), 0, 255)
    return codes.astype(mx.uint8).reshape(values.shape), mx.stack([base, step])


def _from_bytes(codes: mx.array, ranges: mx.array) -> mx.array:
    """Undo ``_to_bytes``: float32, [2, B, H, rows, G]."""
    base, step = (part[..., None, :] for part in ranges.astype(mx.float32))  # [2, B, H, chunks, 1, G]
    parts = codes.reshape(*codes.shape[:3], base.shape[3], -1, codes.shape[4])
    return (parts.astype(mx.float32) * step + base).reshape(codes.shape)


def _grown(held: mx.array | None, fresh: mx.array, axis: int) -> mx.array:
    return mx.contiguous(fresh) if held is None else mx.concatenate([held, fresh], axis=axis)
