"""Attention straight on packed codes: by mlx's quantized kernels, or by plain products on a CPU."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import NamedTuple, Protocol

import mlx.core as mx

from ..quantizers.packing import Lanes, lanes
from ..quantizers.skvq import Window, rotation

FEW_QUERIES = 48
"""Query rows up to which it costs less to apply windows to the products than to the rows themselves."""
_SMALL_PRODUCT = 1_000_000
"""Multiplications up to which OpenBLAS has a kernel without packing, twice as fast for a few query rows."""
_SHORTEST_PART = 16
"""Rows below which the calls of many small products would cost more than they save."""


def on_cpu() -> bool:
    """True where plain products beat mlx's quantized and fused kernels, which are written for GPUs."""
    return bool(mx.default_device() == mx.cpu)


_SHRUNK = 2.0**112
"""What undoes the bits of a float16 standing where a float32 has them."""
_PLACES_OF_HALF = 0x8FFFE000 - (1 << 32)
"""Sign, exponent and mantissa of a float16 in a float32, as a signed number."""


@lru_cache(maxsize=1)
def _second_stream() -> mx.ThreadLocalStream:
    return mx.new_thread_local_stream(mx.cpu)


def beside() -> AbstractContextManager[object]:
    """Where to compute what waits for no query: on a CPU a second stream, which another core can take."""
    return mx.stream(_second_stream()) if on_cpu() else nullcontext()


class CodeSpace(NamedTuple):
    """Where codes stand: in rotated or reordered channels, centred on a mean."""

    into: Callable[[mx.array], mx.array]
    """Rows or queries [B, H, R, D] into the space of the codes; linear."""
    out: Callable[[mx.array], mx.array]
    """Undoes ``into``."""
    rotated: bool = False
    """True where ``into`` is the rotation of ``quantizers.skvq``."""
    mean: mx.array | None = None
    """Added to every row, in code space, [1, H, 1, D]."""


class Reader(Protocol):
    """Attention straight on a store of rows; queries, sums and rows as the model has them."""

    def scores(self, queries: mx.array) -> mx.array:
        """Products of queries [B, H, R, D] with the rows less what ``shared`` gives, [B, H, R, n]."""

    def shared(self, queries: mx.array) -> mx.array | None:
        """What a query's products with all rows have in common, [B, H, R, 1]; None is nothing."""

    def weighted(self, weights: mx.array) -> mx.array:
        """Sums of the rows under weights [B, H, R, n], [B, H, R, D]."""


class RowReader(NamedTuple):
    """Decoded rows, for stores that nothing reads as they lie."""

    rows: mx.array
    """In code space, mean added, [B, H, n, D]."""
    space: CodeSpace

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        return self.space.into(queries) @ self.rows.swapaxes(-1, -2)

    def shared(self, queries: mx.array) -> mx.array | None:
        """See Reader."""
        return None

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        return self.space.out(weights @ self.rows)


class HalfReader(NamedTuple):
    """Rows in float16, multiplied in float32 by shifting their bits into place.

    A float16 is sign, 5 bits of exponent and 10 of mantissa; in the places where a float32 has its own it
    is the same number times ``2 ** -112``. A CPU without the instruction for it converts half as fast.
    """

    rows: mx.array
    """float16, [B, H, n, D]."""

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        return queries @ (self._shrunk() * _SHRUNK).swapaxes(-1, -2)

    def shared(self, queries: mx.array) -> mx.array | None:
        """See Reader."""
        return None

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader; weights of at most 1."""
        with beside():
            shrunk = self._shrunk()
        return summed_in_parts(weights * _SHRUNK, shrunk)

    def _shrunk(self) -> mx.array:
        """The rows times ``2 ** -112``, float32."""
        signed = mx.view(self.rows, mx.int16).astype(mx.int32)
        return mx.view((signed << 13) & _PLACES_OF_HALF, mx.float32)


class KernelReader(NamedTuple):
    """Codes as mlx's quantized kernels take them."""

    words: mx.array
    """uint32, [B, H, n, D * bits / 32]."""
    window: Window
    """[B, H, n, G]."""
    group: int
    bits: int
    space: CodeSpace

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        return self._product(self.space.into(queries), transpose=True)

    def shared(self, queries: mx.array) -> mx.array | None:
        """See Reader."""
        return _on_mean(queries, self.space)

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        return _with_mean(self.space.out(self._product(weights, transpose=False)), weights, self.space)

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
    windows: mx.array
    """lo and scale, float32, [2, B, H, n, G]."""
    bits: int
    group: int
    space: CodeSpace

    def scores(self, queries: mx.array) -> mx.array:
        """See Reader."""
        if not self._few(queries):
            in_lanes = self._joined(self._by_group(self.space.into(queries)) @ self._lanes.matrix)
            return in_lanes @ self._rows().swapaxes(-1, -2)
        with beside():
            numbers, (lo, scale) = self._numbers(), self._across()
        turned = queries if self.space.rotated else self.space.into(queries)
        asked = self._of_rows().into @ turned.swapaxes(-1, -2)  # [B, H, P + 1, R]
        # BLAS takes less than half the time with the few columns on the right.
        products = in_parts(numbers, asked[..., :-1, :])
        return mx.addmm(products.swapaxes(-1, -2) * scale, asked[..., -1:, :].swapaxes(-1, -2), lo)

    def shared(self, queries: mx.array) -> mx.array | None:
        """See Reader."""
        return _on_mean(queries, self.space)

    def weighted(self, weights: mx.array) -> mx.array:
        """See Reader."""
        if not self._few(weights):
            found = self._joined(self._by_group(weights @ self._rows()) @ self._lanes.matrix.T)
            return _with_mean(self.space.out(found), weights, self.space)
        with beside():
            planes, (lo, scale) = self._lanes.planes(self.codes), self._across()
        # Summed by mlx: BLAS's product of two vectors depends in its last bit on where they lie.
        shift = (weights * lo).sum(axis=-1, keepdims=True)
        by_lane = summed_in_parts(mx.expand_dims(weights * scale, 2), planes)  # [B, H, L, R, bytes]
        _, ones, out = self._of_rows()
        found = mx.addmm(shift * ones, mx.flatten(by_lane.swapaxes(2, 3), 3), out)
        if not self.space.rotated:
            found = self.space.out(found)
        return _with_mean(found, weights, self.space)

    @property
    def _lanes(self) -> Lanes:
        return lanes(self.bits, self.group)

    def _of_rows(self) -> "LanesOfRows":
        """The lanes as the model's own rows meet them."""
        return lanes_of_rows(self.bits, self.group, self.space.rotated)

    def _across(self) -> Window:
        """The windows of rows of one group, [B, H, 1, n]."""
        _, batch, heads, rows, _ = self.windows.shape
        lo, scale = mx.split(self.windows, 2)
        return Window(lo.reshape(batch, heads, 1, rows), scale.reshape(batch, heads, 1, rows))

    def _few(self, left: mx.array) -> bool:
        return self._groups == 1 and left.shape[2] <= FEW_QUERIES

    @property
    def _groups(self) -> int:
        return self.windows.shape[-1]

    def _by_group(self, rows: mx.array) -> mx.array:
        """Rows with an axis for the groups before the last one, if there are several."""
        return rows if self._groups == 1 else mx.unflatten(rows, -1, (self._groups, -1))

    def _joined(self, rows: mx.array) -> mx.array:
        """Undo ``_by_group``."""
        return rows if self._groups == 1 else mx.flatten(rows, -2)

    def _numbers(self) -> mx.array:
        """The numbers of all groups, [B, H, n, G * P]."""
        return self._joined(self._lanes.numbers(self._by_group(self.codes)))

    def _rows(self) -> mx.array:
        """The decoded rows in the order of the lanes, without the mean, [B, H, n, G * P]."""
        lo, scale = (mx.squeeze(part, 0) for part in mx.split(self.windows, 2))
        if self._groups > 1:
            lo, scale = lo[..., None], scale[..., None]
        each = self._lanes
        return self._joined(each.numbers(self._by_group(self.codes)) * scale + lo * each.ones)


class LanesOfRows(NamedTuple):
    """A row of codes as plain numbers, rotation included: one product with each side of attention."""

    into: mx.array
    """float32, [P + 1, D]: a query's factors for the numbers, and one for what all codes of a row share."""
    ones: mx.array
    """float32, [1, D]: the row all of whose codes are 1."""
    out: mx.array
    """float32, [P, D]: what each number adds to a row."""


@lru_cache(maxsize=64)
def lanes_of_rows(bits: int, count: int, rotated: bool) -> LanesOfRows:
    """The lanes of a row of ``count`` codes, of rotated channels or not; shared and evaluated."""
    turned = rotation(count) if rotated else mx.eye(count)
    numbers = (turned @ lanes(bits, count).matrix).T
    ones = turned.sum(axis=1)[None]
    found = LanesOfRows(mx.concatenate([numbers, ones]), ones, numbers)
    mx.eval(*found)
    return found


def _on_mean(queries: mx.array, space: CodeSpace) -> mx.array | None:
    """Products of queries [B, H, R, D] with the mean of the rows, [B, H, R, 1]."""
    return None if space.mean is None else queries @ space.out(space.mean).swapaxes(-1, -2)


def _with_mean(sums: mx.array, weights: mx.array, space: CodeSpace) -> mx.array:
    """Sums of rows [B, H, R, D] with the share of the mean."""
    return sums if space.mean is None else sums + weights.sum(axis=-1, keepdims=True) * space.out(space.mean)


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
