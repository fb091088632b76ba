"""A growing store of packed codes with their windows."""

import mlx.core as mx

from ..quantizers.packing import pack, packed_bytes, unpack
from ..quantizers.skvq import Window, assign, decode, to_float16
from ..telemetry import ByteCount

_KERNEL_GROUPS = (32, 64, 128)
_KERNEL_BITS = (1, 2, 3, 4, 5, 6, 8)
_CHUNK_PARAMETERS = 4
"""Lowest value and step of the chunk's lo and of its scale, float16, per group."""


class CodeStore:
    """Rows as packed codes, with a window (lo, scale) per row and group.

    Windows are float16, or 8-bit codes within the range they have in their chunk. Rows come in whole
    chunks; only the first may be shorter, by the sink rows that are kept elsewhere.

    Args:
        bits: 1 to 8, of one code. group: channels that share a window.
        param_bits: 16 or 8, of lo and of scale.
        chunk: rows of a chunk. first: rows of the first chunk.
    """

    def __init__(self, bits: int, group: int, param_bits: int, chunk: int, first: int) -> None:
        self.bits = bits
        self.group = group
        self.param_bits = param_bits
        self.chunk = chunk
        self.first = first
        self.count = 0
        """Rows held."""
        self.dim = 0
        self.codes: mx.array | None = None
        """uint8, [B, H, n, bytes]."""
        self._windows: Window | None = None
        """float16 or uint8, [B, H, n, G]."""
        self._chunks: mx.array | None = None
        """With 8-bit parameters: float16, [B, H, chunks, G, 4]."""

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
        if self.param_bits == 16:
            stored, exact = self._round16(window)
            chunks = None
        else:
            stored, exact, chunks = self._round8(window)
        codes = pack(assign(rows, exact, self.bits, self.group), self.bits)
        self.codes = _grown(self.codes, codes)
        held = self._windows or (None, None)
        self._windows = Window(*(_grown(old, new) for old, new in zip(held, stored, strict=True)))
        if chunks is not None:
            self._chunks = _grown(self._chunks, chunks)
        self.count += rows.shape[2]

    def _round16(self, window: Window) -> tuple[Window, Window]:
        stored = Window(*(to_float16(part) for part in window))
        return stored, Window(*(part.astype(mx.float32) for part in stored))

    def _round8(self, window: Window) -> tuple[Window, Window, mx.array]:
        """Windows as 8-bit codes in the range of their chunk; also what those codes stand for."""
        total = window.lo.shape[2]
        head = self.first if self.count == 0 else 0
        spans = [(0, head)] if head else []
        if total > head:
            spans.append((head, total))
        pieces = []
        for start, end in spans:
            size = min(self.chunk, end - start)
            pieces.append([_to_bytes(part[:, :, start:end], size) for part in window])
        codes = Window(*(_joined([piece[i][0] for piece in pieces]) for i in range(2)))
        chunks = _joined([mx.concatenate([piece[0][1], piece[1][1]], axis=-1) for piece in pieces])
        values = self._spread(codes, chunks, mx.float32, shorter=self.chunk - head if head else 0)
        return codes, values, chunks

    def _spread(self, codes: Window, chunks: mx.array, dtype: mx.Dtype, *, shorter: int) -> Window:
        """8-bit window codes decoded; the first chunk lacks ``shorter`` rows."""
        each = mx.repeat(chunks.astype(dtype), self.chunk, axis=2)[:, :, shorter:]  # [B, H, n, G, 4]
        lo, scale = (
            part.astype(dtype) * each[..., 2 * i + 1] + each[..., 2 * i] for i, part in enumerate(codes)
        )
        return Window(lo, scale)

    def windows(self, dtype: mx.Dtype) -> Window:
        """The windows as they count for decoding, [B, H, n, G] in ``dtype``."""
        if self._windows is None:
            raise ValueError("The store is empty.")
        if self._chunks is None:
            return Window(*(part.astype(dtype) for part in self._windows))
        shorter = self.chunk - self.first if self.first else 0
        values = self._spread(self._windows, self._chunks, mx.float32, shorter=shorter)
        return Window(*(part.astype(dtype) for part in values))

    def words(self) -> mx.array:
        """The codes as mlx's kernels read them: uint32, [B, H, n, D * bits / 32]."""
        if self.codes is None:
            raise ValueError("The store is empty.")
        return self.codes.view(mx.uint32)

    def kernel_group(self) -> int:
        """Group size to tell mlx's kernels."""
        return min(self.group, self.dim)

    def decoded(self, dtype: mx.Dtype) -> mx.array:
        """All rows, [B, H, n, D]. Computed in float32 unless ``dtype`` holds float16 exactly."""
        exact = dtype if dtype in (mx.float32, mx.float16) else mx.float32
        window = self.windows(exact)
        if self.readable:
            rows = mx.dequantize(
                self.words(), window.scale, window.lo, group_size=self.kernel_group(), bits=self.bits
            )
        else:
            if self.codes is None:
                raise ValueError("The store is empty.")
            rows = decode(unpack(self.codes, self.bits, self.dim), window, self.group)
        return rows.astype(dtype)

    def arrays(self) -> list[mx.array]:
        """Every array held."""
        return [a for a in (self.codes, *(self._windows or ()), self._chunks) if a is not None]

    def byte_count(self, batch: int, heads: int) -> ByteCount:
        """Bytes of what is held (counted)."""
        chunks = -(-(self.count + self.chunk - self.first) // self.chunk) if self.count else 0
        if self.count and not self.first:
            chunks -= 1
        return self.predict(self.count, chunks, batch * heads, self.dim)

    def predict(self, rows: int, chunks: int, heads: int, dim: int) -> ByteCount:
        """Bytes of so many rows in so many chunks, over all heads and batch rows."""
        groups = -(-dim // self.group)
        parameters = rows * groups * 2 * self.param_bits // 8
        if self.param_bits == 8:
            parameters += chunks * groups * _CHUNK_PARAMETERS * 2
        return ByteCount(codes=heads * rows * packed_bytes(dim, self.bits), parameters=heads * parameters)


def _to_bytes(values: mx.array, chunk: int) -> tuple[mx.array, mx.array]:
    """Values [B, H, S, G] as uint8 within each chunk's range, and (lowest, step) [B, H, S / chunk, G, 2]."""
    batch, heads, rows, groups = values.shape
    parts = values.reshape(batch, heads, rows // chunk, chunk, groups)
    low, high = parts.min(axis=3), parts.max(axis=3)  # [B, H, chunks, G]
    base = to_float16(low)
    # Rounded up a little, so that the highest value is within reach of code 255.
    step = to_float16((high - base.astype(mx.float32)) * (1.001 / 255))
    inner = Window(base.astype(mx.float32)[..., None, :], step.astype(mx.float32)[..., None, :])
    inverse = mx.where(inner.scale > 0, 1 / mx.maximum(inner.scale, 1e-30), 0.0)
    codes = mx.clip(mx.round((parts - inner.lo) * inverse), 0, 255).astype(mx.uint8)
    return codes.reshape(values.shape), mx.stack([base, step], axis=-1)


def _grown(held: mx.array | None, fresh: mx.array) -> mx.array:
    return mx.contiguous(fresh) if held is None else mx.concatenate([held, fresh], axis=2)


def _joined(parts: list[mx.array]) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)
