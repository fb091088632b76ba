"""A growing store of packed codes with their windows."""

import math
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from ..quantizers.packing import pack, packed_bytes, unpack
from ..quantizers.skvq import Window, assign, decode, to_float16
from ..telemetry import ByteCount
from .dump import Dump, taken
from .readers import CodeSpace, KernelReader, LaneReader, Reader, beside, on_cpu

KERNEL_GROUPS = (32, 64, 128)
KERNEL_BITS = (1, 2, 3, 4, 5, 6, 8)
_KERNEL_ROWS = 6
"""Query rows up to which mlx's kernel reads rows of several windows faster than lanes on a CPU."""
_USUAL_ROOT = 40
"""8-bit code of the largest window of the first chunk: later ones may be ten times as large (127 / 40
squared) before they are cut off."""


class CodeStore:
    """Rows as packed codes, with a window (lo, scale) per row and group.

    Windows are stored in float16, or in 8 bits as signed roots: the code ``k`` stands for ``k * |k|`` times
    a factor that the first chunk fixes, which is fine where most windows are and reaches far beyond.
    Such a rounding costs little, because codes are chosen after it.

    Args:
        bits: 1 to 8, of one code. group: channels that share a window. param_bits: 16 or 8.
        first: coded rows of the first chunk.
    """

    def __init__(self, bits: int, group: int, param_bits: int, first: int) -> None:
        self.bits = bits
        self.group = group
        self.param_bits = param_bits
        self.first = first
        self._factors: mx.array | None = None
        """What 8-bit lo and scale are multiplied with, float32 [2, 1, 1, 1, 1]; evaluated with the codes."""
        self.dim = 0
        self.codes: mx.array | None = None
        """uint8, [B, H, n, bytes]."""
        self._windows: mx.array | None = None
        """lo and scale, float16 or int8, [2, B, H, n, G]."""

    @property
    def readable(self) -> bool:
        """True when mlx's quantized kernels can read the store as it lies."""
        group = min(self.group, self.dim)
        return group in KERNEL_GROUPS and self.dim % group == 0 and self.bits in KERNEL_BITS

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

    def truncate(self, rows: int) -> None:
        """Keep the oldest ``rows`` rows, as if no more had been appended."""
        if not rows:
            self.codes = self._windows = self._factors = None
        elif self.codes is not None and self._windows is not None:
            # Copied, or the short rest would keep the long buffers alive.
            self.codes = mx.contiguous(self.codes[:, :, :rows])
            self._windows = mx.contiguous(self._windows[:, :, :, :rows])

    def dump(self) -> Dump:
        """Arrays by name and plain facts; nothing from an empty store."""
        if self.codes is None or self._windows is None:
            return {}, {}
        facts = {} if self._factors is None else {"factors": self._factors.reshape(-1).tolist()}
        return {"codes": self.codes, "windows": self._windows}, facts

    def restore(
        self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any], shape: tuple[int, int, int, int]
    ) -> None:
        """Hold what ``dump`` gave for rows of ``shape`` [B, H, n, D]. Raises ValueError or KeyError."""
        batch, heads, rows, dim = shape
        if not rows:
            return
        groups = -(-dim // self.group)
        kind = mx.float16 if self.param_bits == 16 else mx.int8
        codes = taken(arrays, "codes", (batch, heads, rows, packed_bytes(dim, self.bits)), mx.uint8)
        windows = taken(arrays, "windows", (2, batch, heads, rows, groups), kind)
        if self.param_bits == 8:
            lo, scale = (float(factor) for factor in facts["factors"])
            if not (math.isfinite(lo) and math.isfinite(scale)):
                raise ValueError("factors")
            self._factors = _column(lo, scale)
        self.dim, self.codes, self._windows = dim, codes, windows

    def _rounded(self, window: Window) -> mx.array:
        """The windows as they are stored."""
        both = mx.stack(list(window))
        if self.param_bits == 16:
            return to_float16(both)
        if self._factors is None:
            largest = mx.abs(both[:, :, :, : self.first]).max(axis=(1, 2, 3, 4), keepdims=True)
            self._factors = mx.where(largest > 0, largest / _USUAL_ROOT**2, 1.0)
        roots = mx.sign(both) * mx.sqrt(mx.abs(both) / self._factors)
        if self.bits <= 4:
            roots = mx.round(roots)
        else:
            # With many levels it is the ends that lose, so the window is rounded outward.
            low = mx.floor(roots[0])
            of_lo, of_scale = self._factors
            reach = (window.lo + window.scale * ((1 << self.bits) - 1)) - low * mx.abs(low) * of_lo
            step = reach / ((1 << self.bits) - 1)
            roots = mx.stack([low, mx.ceil(mx.sqrt(mx.maximum(step, 0) / of_scale))])
        return mx.clip(roots, -127, 127).astype(mx.int8)

    def windows(self, dtype: mx.Dtype) -> mx.array:
        """Lo and scale as numbers of ``dtype``, [2, B, H, n, G]."""
        if self._windows is None:
            raise ValueError("The store is empty.")
        return self._values(self._windows, dtype)

    def _values(self, stored: mx.array, dtype: mx.Dtype) -> mx.array:
        """Lo and scale out of what is stored of them, in one array."""
        if self.param_bits == 16:
            return stored.astype(dtype)
        roots = stored.astype(mx.float32)
        return (roots * mx.abs(roots) * (1.0 if self._factors is None else self._factors)).astype(dtype)

    def _decoded_window(self, stored: mx.array, dtype: mx.Dtype) -> Window:
        # Views: indexing would copy.
        lo, scale = mx.split(self._values(stored, dtype), 2)
        return Window(mx.squeeze(lo, 0), mx.squeeze(scale, 0))

    def reader(self, dtype: mx.Dtype, queries: int, space: CodeSpace) -> Reader | None:
        """A reader that computes in ``dtype``, or None where the rows have to be decoded.

        Args:
            queries: rows of queries a head that it will be asked for.
            space: where the codes stand.
        """
        if self.codes is None or self._windows is None:
            return None
        group = min(self.group, self.dim)
        whole_bytes = self.dim % group == 0 and group * self.bits % 8 == 0
        by_kernel = self.readable and (not on_cpu() or (group < self.dim and queries <= _KERNEL_ROWS))
        if by_kernel:
            window = self._decoded_window(self._windows, dtype)
            return KernelReader(self.codes.view(mx.uint32), window, group, self.bits, space)
        if on_cpu() and whole_bytes:
            with beside():
                windows = self.windows(mx.float32)
            return LaneReader(self.codes, windows, self.bits, group, space)
        return None

    def decoded(self, dtype: mx.Dtype) -> mx.array:
        """All rows, [B, H, n, D]; computed in float32 unless ``dtype`` holds float16 exactly."""
        if self.codes is None or self._windows is None:
            raise ValueError("The store is empty.")
        exact = dtype if dtype in (mx.float32, mx.float16) else mx.float32
        window = self._decoded_window(self._windows, exact)
        # On a CPU mlx's own decoding takes two to three times as long as these plain operations.
        if self.readable and not on_cpu():
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


def _column(lo: float, scale: float) -> mx.array:
    """What 8-bit windows [2, B, H, n, G] are multiplied with."""
    return mx.array((lo, scale)).reshape(2, 1, 1, 1, 1)


def _grown(held: mx.array | None, fresh: mx.array, axis: int) -> mx.array:
    return mx.contiguous(fresh) if held is None else mx.concatenate([held, fresh], axis=axis)
