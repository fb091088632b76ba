"""Attention straight on packed codes: by mlx's quantized kernels, or by plain products on a CPU."""

from typing import NamedTuple, Protocol

import mlx.core as mx

from ..quantizers.packing import lanes
from ..quantizers.skvq import Window


class Reader(Protocol):
    """Attention straight on a store of rows; queries, sums and rows in the space of its codes."""

    def scores(self, queries: mx.array) -> mx.array:
        """Products of queries [B, H, R, D] with the rows, [B, H, R, n]."""

    def weighted(self, weights: mx.array) -> mx.array:
        """Sums of the rows under weights [B, H, R, n], [B, H, R, D]."""


class KernelReader(NamedTuple):
    """Codes as mlx's quantized kernels take them."""

    words: mx.array
    """uint32, [B, H, n, D * bits / 32]."""
    window: Window
    """[B, H, n, G]."""
    group: int
    bits: int
    mean: mx.array | None
    """Added to every row, in code space, [1, H, 1, D]."""

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        products = self._product(queries, transpose=True)
        return products if self.mean is None else products + (queries * self.mean).sum(axis=-1, keepdims=True)

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        rows = self._product(weights, transpose=False)
        return rows if self.mean is None else rows + weights.sum(axis=-1, keepdims=True) * self.mean

    def _product(self, left: mx.array, *, transpose: bool) -> mx.array:
        lo, scale = self.window
        return mx.quantized_matmul(
            left, self.words, scale, lo, transpose=transpose, group_size=self.group, bits=self.bits
        )


class LaneReader(NamedTuple):
    """Codes of one window per row, multiplied as plain numbers lane by lane.

    With one window per row, ``q . (lo + scale * c)`` is ``lo * sum(q) + scale * (q . c)``: the codes
    need no decoding, only to become numbers, and BLAS does the rest. On a CPU this takes half the time
    of the quantized kernel, which decodes the codes again for every query row.
    """

    codes: mx.array
    """uint8, [B, H, n, bytes]."""
    window: Window
    """[B, H, n, 1]."""
    bits: int
    mean: mx.array | None
    """Added to every row, in code space, [1, H, 1, D]."""

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        numbers = self._numbers(queries.dtype)
        lo, scale = (part.swapaxes(-1, -2) for part in self.window)  # [B, H, 1, n]
        # Channels stand in the order of the lanes.
        in_lanes = queries.reshape(*queries.shape[:-1], -1, self._lane_count()).swapaxes(-1, -2)
        products = in_lanes.reshape(queries.shape) @ numbers.swapaxes(-1, -2)
        found = products * scale + queries.sum(axis=-1, keepdims=True) * lo
        return found if self.mean is None else found + (queries * self.mean).sum(axis=-1, keepdims=True)

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        numbers = self._numbers(weights.dtype)
        lo, scale = self.window  # [B, H, n, 1]
        in_lanes = (weights * scale.swapaxes(-1, -2)) @ numbers
        rows = in_lanes.reshape(*in_lanes.shape[:-1], self._lane_count(), -1).swapaxes(-1, -2)
        rows = rows.reshape(in_lanes.shape) + weights @ lo
        return rows if self.mean is None else rows + weights.sum(axis=-1, keepdims=True) * self.mean

    def _numbers(self, dtype: mx.Dtype) -> mx.array:
        """The codes as numbers, channels in the order of the lanes, [B, H, n, D]."""
        found = lanes(self.codes, self.bits)
        return found.reshape(*found.shape[:3], -1).astype(dtype)

    def _lane_count(self) -> int:
        return 8 // self.bits if 8 % self.bits == 0 else 8
