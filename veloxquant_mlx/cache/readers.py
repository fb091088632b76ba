"""Attention straight on packed codes: by mlx's quantized kernels, or by plain products on a CPU."""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import NamedTuple, Protocol

import mlx.core as mx

from ..quantizers.packing import Lanes
from ..quantizers.skvq import Window

_FEW = 48
"""Query rows up to which it costs less to apply windows to the products than to the rows themselves."""
_SMALL_PRODUCT = 1_000_000
"""Multiplications up to which OpenBLAS has a kernel without packing, twice as fast for a few query rows."""
_SHORTEST_PART = 16
"""Rows below which the calls of many small products would cost more than they save."""


def on_cpu() -> bool:
    """True where plain products beat mlx's quantized and fused kernels, which are written for GPUs."""
    return bool(mx.default_device() == mx.cpu)


@lru_cache(maxsize=1)
def _second_stream() -> mx.ThreadLocalStream:
    return mx.new_thread_local_stream(mx.cpu)


def beside() -> AbstractContextManager[object]:
    """Where to compute what waits for no query: on a CPU a second stream, which another core can take."""
    return mx.stream(_second_stream()) if on_cpu() else nullcontext()


class Reader(Protocol):
    """Attention straight on a store of rows; queries, sums and rows in the space of its codes."""

    def scores(self, queries: mx.array) -> mx.array:
        """Products of queries [B, H, R, D] with the rows, [B, H, R, n]."""

    def weighted(self, weights: mx.array) -> mx.array:
        """Sums of the rows under weights [B, H, R, n], [B, H, R, D]."""


class RowReader(NamedTuple):
    """Decoded rows, for stores that nothing reads as they lie."""

    rows: mx.array
    """[B, H, n, D]."""

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        return queries @ self.rows.swapaxes(-1, -2)

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        return weights @ self.rows


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
    """Codes multiplied as plain numbers, lane by lane, in float32.

    ``q . (lo + scale * c)`` is ``lo * sum(q) + scale * (q . c)``: the codes need no decoding, only to
    become numbers, and BLAS does the rest. On a CPU this takes less time than the quantized kernel,
    which decodes the codes again for every query row. For many queries, or where a row has several windows,
    these are applied to the rows instead, which stay in the order of the lanes.
    """

    codes: mx.array
    """uint8, [B, H, n, bytes]."""
    window: Window
    """[B, H, n, G]."""
    lanes: Lanes
    """Of one group."""
    mean: mx.array | None
    """Added to every row, in code space, [1, H, 1, D]."""

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        in_lanes = self._joined(self._by_group(queries) @ self.lanes.matrix)
        if self._few(queries):
            with beside():
                numbers, (lo, scale) = self._numbers(), self._across()
                columns, rows = self._shared(lo)
            # BLAS takes less than half the time with the few columns on the right.
            products = in_parts(numbers, mx.contiguous(in_lanes.swapaxes(-1, -2)))
            return mx.addmm(products.swapaxes(-1, -2) * scale, queries @ columns, rows)
        found = in_lanes @ self._rows().swapaxes(-1, -2)
        return found if self.mean is None else found + queries @ self.mean.swapaxes(-1, -2)

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        back = self.lanes.matrix.T
        if self._few(weights):
            with beside():
                planes, (lo, scale) = self.lanes.planes(self.codes), self._across()
            # Summed by mlx: BLAS's product of two vectors depends in its last bit on where they lie.
            shift = (weights * lo).sum(axis=-1, keepdims=True)
            by_lane = summed_in_parts(mx.expand_dims(weights * scale, 2), planes)  # [B, H, L, R, bytes]
            found = mx.addmm(shift, mx.flatten(by_lane.swapaxes(2, 3), 3), back)
        else:
            found = self._joined(self._by_group(weights @ self._rows()) @ back)
        return found if self.mean is None else found + weights.sum(axis=-1, keepdims=True) * self.mean

    def _across(self) -> Window:
        """The windows of rows of one group, [B, H, 1, n]."""
        lo, scale = self.window
        return Window(lo.swapaxes(-1, -2), scale.swapaxes(-1, -2))

    def _shared(self, lo: mx.array) -> tuple[mx.array, mx.array]:
        """What all channels of a row have in common, lo [B, H, 1, n] and the mean, as columns
        [1, H, D, 1 or 2] and rows: ``queries @ columns @ rows`` is what it adds to the products."""
        ones = mx.ones((1, lo.shape[1], self.lanes.matrix.shape[0], 1))
        if self.mean is None:
            return ones, lo
        both = mx.concatenate([ones, self.mean.swapaxes(-1, -2)], axis=-1)
        return both, mx.concatenate([lo, mx.ones_like(lo)], axis=2)

    def _few(self, left: mx.array) -> bool:
        return self._groups == 1 and left.shape[2] <= _FEW

    @property
    def _groups(self) -> int:
        return self.window.lo.shape[-1]

    def _by_group(self, rows: mx.array) -> mx.array:
        """Rows with an axis for the groups before the last one, if there are several."""
        return rows if self._groups == 1 else mx.unflatten(rows, -1, (self._groups, -1))

    def _joined(self, rows: mx.array) -> mx.array:
        """Undo ``_by_group``."""
        return rows if self._groups == 1 else mx.flatten(rows, -2)

    def _numbers(self) -> mx.array:
        """The numbers of all groups, [B, H, n, G * P]."""
        return self._joined(self.lanes.numbers(self._by_group(self.codes)))

    def _rows(self) -> mx.array:
        """The decoded rows in the order of the lanes, without the mean, [B, H, n, G * P]."""
        lo, scale = self.window
        if self._groups > 1:
            lo, scale = lo[..., None], scale[..., None]
        return self._joined(self.lanes.numbers(self._by_group(self.codes)) * scale + lo * self.lanes.ones)


def in_parts(rows: mx.array, columns: mx.array) -> mx.array:
    """Rows [..., n, P] times a few columns [..., P, R], in parts that are small products for BLAS."""
    parts = _parts(rows.shape[-2], rows.shape[-1] * columns.shape[-1])
    if parts == 1:
        return rows @ columns
    return mx.flatten(mx.unflatten(rows, -2, (parts, -1)) @ mx.expand_dims(columns, -3), -3, -2)


def summed_in_parts(weights: mx.array, rows: mx.array) -> mx.array:
    """Weights [..., R, n] of a few sums times rows [..., n, P], in parts that are small products for BLAS."""
    parts = _parts(rows.shape[-2], rows.shape[-1] * weights.shape[-2])
    if parts == 1:
        return weights @ rows
    by_part = mx.unflatten(weights, -1, (parts, -1)).swapaxes(-3, -2)
    return (by_part @ mx.unflatten(rows, -2, (parts, -1))).sum(axis=-3)


@lru_cache(maxsize=1024)
def _parts(rows: int, width: int) -> int:
    """The fewest equal parts of so many rows that are small products, 1 where there are none."""
    fewest = max(1, -(-rows * width // _SMALL_PRODUCT))
    ends = range(fewest, rows // _SHORTEST_PART + 1)
    return next((parts for parts in ends if rows % parts == 0), 1)
