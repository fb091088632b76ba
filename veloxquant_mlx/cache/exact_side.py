"""Keys or values that stay at 16 bits, for methods that compress only the other side."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from ..telemetry import ByteCount
from .dump import Dump, taken
from .readers import FEW_QUERIES, HalfReader, Reader, on_cpu
from .side import Side


class ExactSide(Side):
    """A side whose store holds the rows behind the frontier as they came, at 16 bits.

    They stand apart from the tail so that a decode step copies the short tail alone.
    """

    def __init__(self, n_sink: int) -> None:
        super().__init__(n_sink)
        self._stored: mx.array | None = None
        """[B, H, coded, D]."""

    def fit(self, rows: mx.array) -> None:
        """Nothing to learn."""

    def unfit(self) -> None:
        """Nothing to forget."""

    def encode(self, rows: mx.array) -> None:
        """Append rows as they are."""
        held = [] if self._stored is None else [self._stored]
        self._stored = mx.contiguous(mx.concatenate([*held, rows], axis=2))

    def truncate(self, rows: int) -> None:
        """Keep the oldest ``rows`` rows."""
        if self._stored is not None:
            self._stored = mx.contiguous(self._stored[:, :, :rows]) if rows else None

    def dump_store(self) -> Dump:
        """The stored rows."""
        return ({} if self._stored is None else {"stored": self._stored}), {}

    def restore_store(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """Undo ``dump_store``."""
        if self.shape is None:
            raise ValueError("shape")
        if self.coded:
            batch, heads, dim = self.shape
            self._stored = taken(arrays, "stored", (batch, heads, self.coded, dim), mx.float16, mx.bfloat16)

    def coded_rows(self, dtype: mx.Dtype) -> mx.array:
        """The stored rows, [B, H, coded, D]."""
        if self._stored is None:
            raise ValueError("The store is empty.")
        return self._stored.astype(dtype)

    def reader(self, dtype: mx.Dtype, queries: int) -> Reader:
        """See Side."""
        stored = self._stored
        few = queries <= FEW_QUERIES and on_cpu()
        if few and stored is not None and stored.dtype == mx.float16 and dtype == mx.float32:
            return HalfReader(stored)
        return super().reader(dtype, queries)

    def store_bytes(self) -> ByteCount:
        """The stored rows are exact rows (counted)."""
        if self.shape is None:
            return ByteCount()
        batch, heads, dim = self.shape
        return ByteCount(exact=batch * heads * self.coded * dim * 2)

    def store_arrays(self) -> list[mx.array]:
        """The stored rows."""
        return [] if self._stored is None else [self._stored]
