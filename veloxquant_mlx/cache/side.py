"""Keys or values of one slot: exact rows and a compressed store."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mlx.core as mx

from ..quantizers.skvq import to_float16
from ..telemetry import ByteCount
from .dump import Dump, taken
from .readers import CodeSpace, Reader, RowReader, beside

_Change = Callable[[mx.array], mx.array]


class SideMark(NamedTuple):
    """What going back takes beside the frozen store: the exact tail and counts."""

    tail: mx.array | None
    """Exact rows without the sinks once those are told apart, [B, H, n, D]; None before the first row."""
    coded: int
    fitted: bool
    gathered: mx.array | None = None
    """See ``Side.gathered``."""
    noted: Any = None
    """See ``Side.noted``."""

    def cut(self, surplus: int) -> "SideMark":
        """Without the newest ``surplus`` rows of the tail."""
        if self.tail is None or not surplus:
            return self
        rows = self.tail.shape[2] - surplus
        if not rows and not self.fitted:
            return self._replace(tail=None)
        return self._replace(tail=mx.contiguous(self.tail[:, :, :rows]))


class Side:
    """Keys or values of one slot: sinks, a compressed store, an exact tail.

    Subclasses say what the store is: they learn (``fit``), append (``encode``), decode (``coded_rows``) and
    count. What was stored is frozen, so that going back is ``truncate``, and ``unfit`` where it goes back
    to before the first flush; ``dump_store`` and ``restore_store`` carry it through a file. Arrays are
    [B, H, rows, D].
    """

    def __init__(self, n_sink: int) -> None:
        self.n_sink = n_sink
        self.exact: mx.array | None = None
        """Sinks and tail in one array, in storage dtype: a decode step then reads it in one go."""
        self.sink_count = 0
        """Leading rows of ``exact`` that are sinks; 0 before the first flush."""
        self.shape: tuple[int, int, int] | None = None
        """(B, H, D) of the first rows seen."""
        self.coded = 0
        """Rows in the store."""
        self.fitted = False
        """True from the first flush on."""
        self.gathered: mx.array | None = None
        """What the fit to come will need beside the rows; None once fitted, and for sides that learn from
        rows alone."""
        self.noted: Any = None
        """What gauges tell of the newest flushes; never changed in place."""

    @property
    def count(self) -> int:
        """Rows held, exact and coded."""
        return self.coded + self.exact_count

    @property
    def exact_count(self) -> int:
        """Exact rows held: sinks and tail."""
        return 0 if self.exact is None else self.exact.shape[2]

    @property
    def sinks(self) -> mx.array | None:
        """The sink rows, None before the first flush."""
        return None if self.exact is None or not self.fitted else self.exact[:, :, : self.sink_count]

    @property
    def tail(self) -> mx.array | None:
        """The newest exact rows, None before the first row."""
        return None if self.exact is None else self.exact[:, :, self.sink_count :]

    def append(self, rows: mx.array) -> None:
        """Add rows, already in storage dtype, to the exact tail."""
        if self.exact is None:
            self.shape = (rows.shape[0], rows.shape[1], rows.shape[3])
            self.exact = mx.contiguous(rows)
        else:
            self.exact = mx.concatenate([self.exact, rows], axis=2)

    def flush(self, count: int, chunk: int) -> None:
        """Move the oldest ``count`` tail rows behind the frontier, once and for good.

        What stays frozen is learnt from the first ``chunk`` rows, however many come at once: it must not
        depend on how a prompt was split.
        """
        if self.exact is None:
            return
        end = self.sink_count + count
        if not self.fitted:
            self.fit(self.exact[:, :, :chunk])
            self.fitted, self.sink_count = True, self.n_sink
        rows = self.exact[:, :, self.sink_count : end]
        # A new array: the short rest must not keep the long buffer alive.
        kept = [self.exact[:, :, : self.sink_count], self.exact[:, :, end:]]
        self.exact = mx.contiguous(mx.concatenate(kept, axis=2))
        if rows.shape[2]:
            self.encode(rows)
            self.coded += rows.shape[2]

    def mark(self) -> SideMark:
        """Where the side stands, with a copy of the tail alone."""
        tail = None if self.tail is None else mx.contiguous(self.tail)
        return SideMark(tail, self.coded, self.fitted, self.gathered, self.noted)

    def rewind(self, mark: SideMark) -> None:
        """Stand where the mark was made, which must have been on the way here. Codes are not copied unless
        some were stored since; then those that stay move to a buffer of their length."""
        sinks = self.sinks if mark.fitted else None
        if mark.coded < self.coded:
            self.truncate(mark.coded)
            self.coded = mark.coded
        if self.fitted and not mark.fitted:
            self.unfit()
            self.fitted, self.sink_count = False, 0
        self.gathered, self.noted = mark.gathered, mark.noted
        if mark.tail is None:
            self.exact = self.shape = None
        else:
            self.exact = mark.tail if sinks is None else mx.concatenate([sinks, mark.tail], axis=2)

    def dump(self) -> Dump:
        """Everything that ``restore`` needs to make an empty side of the same configuration this one."""
        arrays, facts = self.dump_store()
        own = {"exact": self.exact, "gathered": self.gathered}
        return arrays | {name: array for name, array in own.items() if array is not None}, facts

    def restore(
        self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any], *, frontier: int, tail: int
    ) -> None:
        """Hold what ``dump`` gave for so many rows behind the frontier and after it; the side is empty.

        Raises ValueError, KeyError or TypeError when they do not fit together or the configuration.
        """
        if not frontier + tail:
            return
        self.fitted = frontier > 0
        self.sink_count = self.n_sink if self.fitted else 0
        self.coded = frontier - self.sink_count
        batch, heads, _, dim = arrays["exact"].shape
        rows = (batch, heads, self.sink_count + tail, dim)
        self.exact = taken(arrays, "exact", rows, mx.float16, mx.bfloat16)
        self.shape = (batch, heads, dim)
        if self.fitted:
            self.restore_store(arrays, facts)
        elif "gathered" in arrays:
            self.gathered = taken(arrays, "gathered", (batch * heads, dim, dim), mx.float32)

    def rows(self, dtype: mx.Dtype) -> mx.array:
        """All rows in order, [B, H, offset, D]; the coded ones decoded."""
        return self._in_order(dtype, self.out_of_code_space, lambda exact: exact)

    def rows_in_code_space(self, dtype: mx.Dtype) -> mx.array:
        """All rows in order in the space of the codes: cheaper than bringing every coded row out of it."""
        return self._in_order(dtype, lambda coded: coded, self.into_code_space)

    def exact_rows(self, dtype: mx.Dtype) -> mx.array:
        """Sinks and tail, [B, H, n, D], without the coded rows between them."""
        if self.exact is None:
            raise ValueError("This side holds no rows.")
        return self.exact.astype(dtype)

    def _decoded(self, dtype: mx.Dtype, change: _Change) -> mx.array:
        if dtype != mx.float16:
            return change(self.coded_rows(dtype))
        # A step times a code, or a sum over rotated channels, may pass float16's range although no row does.
        return to_float16(change(self.coded_rows(mx.float32)))

    def _in_order(self, dtype: mx.Dtype, change_coded: _Change, change_exact: _Change) -> mx.array:
        exact = change_exact(self.exact_rows(dtype))
        if not self.coded:
            return exact
        sinks, tail = exact[:, :, : self.sink_count], exact[:, :, self.sink_count :]
        return mx.concatenate([sinks, self._decoded(dtype, change_coded), tail], axis=2)

    def arrays(self) -> list[mx.array]:
        """Every array this side holds."""
        own = [array for array in (self.exact, self.gathered) if array is not None]
        return own + self.store_arrays()

    def byte_count(self) -> ByteCount:
        """Bytes by kind (counted)."""
        if self.shape is None or self.exact is None:
            return ByteCount()
        row = self.shape[0] * self.shape[1] * self.shape[2] * 2
        tail = self.exact.shape[2] - self.sink_count
        gathered = 0 if self.gathered is None else self.gathered.nbytes
        return self.store_bytes() + ByteCount(exact=tail * row, sinks=self.sink_count * row, side=gathered)

    def see(self, queries: mx.array) -> None:
        """The queries [B, Hq, L, D] of the running call, for a side that learns from them."""

    def fit(self, rows: mx.array) -> None:
        """Learn what stays frozen for the cache's life from the first chunk."""
        raise NotImplementedError

    def encode(self, rows: mx.array) -> None:
        """Append rows to the store."""
        raise NotImplementedError

    def truncate(self, rows: int) -> None:
        """Keep the oldest ``rows`` rows of the store, fewer than it holds, in arrays of their own length.

        Row for row what ``encode`` would have stored had nothing more come; 0 leaves it as after ``fit``.
        """
        raise NotImplementedError

    def unfit(self) -> None:
        """Forget what ``fit`` learnt; the store is empty by then."""
        raise NotImplementedError

    def dump_store(self) -> Dump:
        """The store and what was learnt; empty before the first flush. The name ``exact`` is taken."""
        raise NotImplementedError

    def restore_store(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """Take over what ``dump_store`` gave; ``shape`` and ``coded`` are set. Raises as ``restore``.

        Whatever could make a later step fail has to be refused here: the file may have been edited.
        """
        raise NotImplementedError

    def coded_rows(self, dtype: mx.Dtype) -> mx.array:
        """The store's rows in code space, [B, H, coded, D]."""
        raise NotImplementedError

    def into_code_space(self, rows: mx.array) -> mx.array:
        """Rows or queries [B, H, R, D] in the linear space the codes are kept in; here the same space."""
        return rows

    def out_of_code_space(self, rows: mx.array) -> mx.array:
        """Undo ``into_code_space``."""
        return rows

    def reader(self, dtype: mx.Dtype, queries: int) -> Reader:
        """What attends on the store with so many rows of queries a head, computing in ``dtype``.

        Here, on its rows decoded for the call.
        """
        with beside():
            rows = self._decoded(dtype, lambda coded: coded)
        return RowReader(rows, CodeSpace(self.into_code_space, self.out_of_code_space))

    def store_bytes(self) -> ByteCount:
        """Bytes of codes, parameters and side data (counted)."""
        raise NotImplementedError

    def store_arrays(self) -> list[mx.array]:
        """Arrays of codes, parameters and side data."""
        raise NotImplementedError
