"""A compressed slot: mlx_lm's cache protocol over two sides that share a flush frontier.

Rows stand in this order on the side of the keys and on that of the values::

    sinks | codes            | tail
    0     | n_sink           | frontier ... offset

Sinks and tail are exact rows at 16 bits; codes are all that exists of the rows between.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from ..config import KVCacheConfig
from ..errors import CacheError
from ..quantizers.skvq import FLOAT16_MAX, to_float16
from ..rotary import Rotary
from ..telemetry import ByteCount
from .attend import attend
from .dump import Dump, prefixed, under, whole
from .side import Side, SideMark
from .slot import Absent, SlotCache


class PendingRows:
    """Stands for a cache's rows between ``update_and_fetch`` and the attention that knows it."""

    def __init__(self, cache: "CompressedKVCache", rows: mx.array) -> None:
        self.cache = cache
        self.dtype = rows.dtype
        self.ndim = 4
        self.shape = (rows.shape[0], rows.shape[1], cache.offset, rows.shape[3])


class CompressedKVCache(KVCache, SlotCache):
    """A slot whose aged rows are stored compressed.

    Args:
        config: the method's configuration; ``head_dim`` is checked against the keys.
        slot: position in the model's cache list, named in errors.
        key_side, value_side: where rows go.
        window: rows per flushed chunk.
        n_sink: leading rows that stay exact.
        recent: newest rows that stay exact at least.
        defer_flush: attend to the running call's rows exactly and flush afterwards.
        max_ctx: refuse to grow beyond this many rows; None is unlimited.

    Compressed rows cannot be trimmed, only taken back to a mark. Never has ``bits``, ``to_quantized``,
    ``merge``, ``__len__``.
    """

    merge = Absent()
    to_quantized = Absent()

    def __init__(
        self,
        config: KVCacheConfig,
        slot: int,
        key_side: Side,
        value_side: Side,
        *,
        window: int,
        n_sink: int,
        recent: int = 0,
        defer_flush: bool = False,
        max_ctx: int | None = None,
    ) -> None:
        self.key_side = key_side
        self.value_side = value_side
        self.config = config
        self.slot = slot
        self.window = window
        self.n_sink = n_sink
        self.recent = recent
        self.defer_flush = defer_flush
        self.max_ctx = max_ctx
        self.offset = 0
        self.frontier = 0
        self._unchecked = False
        """True while the tail holds rows that nobody has looked at for NaN."""
        self.on_codes = False
        """True when the model's attention was replaced by one that calls ``attend``."""
        self.rotary: Rotary | None = None
        """The model's rotary embedding of this slot, told by the builder where it is known."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows, flush every chunk that aged past the frontier, return all rows.

        Args:
            keys: [B, H, S, Dk]. values: [B, H, S, Dv].

        Returns:
            Keys and values of all ``offset + S`` rows in the dtype of the input.

        Raises CacheError when the rows do not fit the cache, would pass ``max_ctx`` or are to be
        flushed while they hold NaN or infinity; the cache is then as it was.
        """
        self.store(keys, values, flush=not self.defer_flush)
        if self.on_codes:
            # The attention that was put into the model asks ``attend`` for the result instead.
            return PendingRows(self, keys), PendingRows(self, values)  # type: ignore[return-value]
        return self.end_call(keys.dtype, values.dtype)

    def end_call(self, key_dtype: mx.Dtype, value_dtype: mx.Dtype | None = None) -> tuple[mx.array, mx.array]:
        """All rows as this call sees them; a deferred flush follows."""
        rows = self._fetch(key_dtype, value_dtype or key_dtype)
        if self.defer_flush:
            self._flush()
        return rows

    def attend(self, queries: mx.array, scale: float, mask: mx.array | str | None) -> mx.array:
        """Attention of queries [B, Hq, L, D] over all rows, [B, Hq, L, Dv]; ends a deferred flush.

        One query row is answered from the codes where a kernel can read them. Otherwise the rows are
        decoded for the call, in code space, and the fused kernel is used.
        """
        self.key_side.see(queries)
        out = self.answer(queries, scale, mask)
        if self.defer_flush:
            self._flush()
        return out

    def answer(self, queries: mx.array, scale: float, mask: mx.array | str | None) -> mx.array:
        """What ``attend`` gives, for whoever only looks: nothing is learnt, and a deferred flush waits."""
        return attend(self.key_side, self.value_side, queries, scale, mask)

    def feed(self, keys: mx.array, values: mx.array, queries: mx.array | None) -> None:
        """Append rows and flush, as at the end of a call; nobody asks for its result.

        Args:
            queries: [B, Hq, n, D], such as the call asked; None where it showed the cache none.
        """
        self.store(keys, values, flush=False)
        if queries is not None:
            self.key_side.see(queries)
        self._flush()

    def store(self, keys: mx.array, values: mx.array, *, flush: bool) -> None:
        """Append rows and, unless the flush is left for later, advance the frontier."""
        self._refuse_misfits(keys, values)
        frontier = self._frontier_at(self.offset + keys.shape[2])
        flushes = frontier > self.frontier
        # Of a decode step no row is flushed yet: to look at it would have the whole pass wait for this slot.
        looked_at = flushes and frontier > self.offset
        fresh = (keys, values) if looked_at else ()
        largest = self._largest(*fresh) if flushes else 0.0
        in_range = looked_at and largest <= FLOAT16_MAX
        self.key_side.append(_to_storage(keys, in_range=in_range))
        self.value_side.append(_to_storage(values, in_range=in_range))
        self.offset += keys.shape[2]
        self._unchecked = not looked_at
        if flush:
            self._flush()

    def _flush(self) -> None:
        frontier = self._frontier_at(self.offset)
        if frontier > self.frontier:
            self.key_side.flush(frontier - self.frontier, self.window)
            self.value_side.flush(frontier - self.frontier, self.window)
            self.frontier = frontier

    def _frontier_at(self, offset: int) -> int:
        return flush_frontier(offset, self.window, self.recent)

    def _fetch(self, key_dtype: mx.Dtype, value_dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
        return self.key_side.rows(key_dtype), self.value_side.rows(value_dtype)

    def _refuse_misfits(self, keys: mx.array, values: mx.array) -> None:
        expected = self.config.head_dim
        if expected is not None and keys.shape[3] != expected:
            raise CacheError(
                f"Slot {self.slot}: head_dim is set to {expected}, but the model's keys have "
                f"{keys.shape[3]} channels; leave head_dim empty."
            )
        for side, rows in ((self.key_side, keys), (self.value_side, values)):
            got = (rows.shape[0], rows.shape[1], rows.shape[3])
            if side.shape is not None and got != side.shape:
                raise CacheError(f"Slot {self.slot}: rows of shape {got} do not fit a cache of {side.shape}.")
        if self.max_ctx is not None and self.offset + keys.shape[2] > self.max_ctx:
            raise CacheError(
                f"Slot {self.slot}: {self.offset + keys.shape[2]:,} tokens would pass the limit of "
                f"{self.max_ctx:,} set by max_ctx; raise it or start a new chat."
            )

    def _largest(self, *fresh: mx.array) -> float:
        """Largest absolute value among fresh rows and the tail. Raises CacheError for NaN and infinity.

        The one forced evaluation, and only when a chunk is flushed: codes of NaN would stay for good.
        """
        waiting = [self.key_side.exact, self.value_side.exact] if self._unchecked else []
        peaks = [
            _peak(rows)
            for rows in (*fresh, *waiting)
            # A cache out of a file may stand just where everything was flushed.
            if rows is not None and rows.size
        ]
        if not peaks:
            return 0.0
        largest: float = mx.stack(peaks).max().item()  # type: ignore[assignment]
        if not math.isfinite(largest):
            first = self.frontier if waiting else self.offset
            raise CacheError(
                f"Slot {self.slot}: the model produced NaN or infinite keys or values at token "
                f"{first:,} or after; what was being stored is left out."
            )
        return largest

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """All rows, decoded, in the dtype exact rows are stored in."""
        if self.key_side.exact is None or self.value_side.exact is None:
            raise CacheError(f"Slot {self.slot}: the cache is empty.")
        return self._fetch(self.key_side.exact.dtype, self.value_side.exact.dtype)

    @property
    def keys(self) -> mx.array | None:
        """The exact rows of the keys; assignable, as pipeline parallelism hangs dependencies on them."""
        return self.key_side.exact

    @keys.setter
    def keys(self, rows: mx.array) -> None:
        self.key_side.exact = rows

    @property
    def values(self) -> mx.array | None:
        """The exact rows of the values."""
        return self.value_side.exact

    @values.setter
    def values(self, rows: mx.array) -> None:
        self.value_side.exact = rows

    @property
    def state(self) -> list[mx.array]:
        """Every array held; mlx_lm evaluates it after each block of a prefill."""
        return self.arrays()

    @state.setter
    def state(self, state: Any) -> NoReturn:
        raise CacheError("A compressed cache is not restored through 'state': its frontier is not in it.")

    def kept(self) -> "Tails":
        """The exact tails and counts: the codes are frozen."""
        sides = self.key_side.mark(), self.value_side.mark()
        return Tails(self.offset, self.lowest_at(self.offset), self.frontier, self._unchecked, *sides)

    def lowest_at(self, tokens: int) -> int:
        """With fewer tokens the frontier would stand elsewhere."""
        frontier = self._frontier_at(tokens)
        return frontier + self.recent if frontier else 0

    def put_back(self, kept: "Tails") -> None:
        """Stand where ``kept`` was taken."""
        self.key_side.rewind(kept.keys)
        self.value_side.rewind(kept.values)
        self.offset, self.frontier, self._unchecked = kept.tokens, kept.frontier, kept.unchecked
        # Slot by slot, so that old and new arrays of the whole list never stand side by side.
        mx.eval(self.arrays())

    def dump(self) -> Dump:
        """Both sides under ``keys`` and ``values``, and the number of tokens."""
        key_arrays, key_facts = self.key_side.dump()
        value_arrays, value_facts = self.value_side.dump()
        facts = {"tokens": self.offset, "keys": key_facts, "values": value_facts}
        return prefixed("keys", key_arrays) | prefixed("values", value_arrays), facts

    def restore(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """See SlotCache. The frontier follows from the number of tokens."""
        tokens = whole(facts, "tokens")
        frontier = self._frontier_at(tokens)
        for name, side in (("keys", self.key_side), ("values", self.value_side)):
            side.restore(under(name, arrays), facts[name], frontier=frontier, tail=tokens - frontier)
        # Nobody has looked at the tail for NaN.
        self.offset, self.frontier, self._unchecked = tokens, frontier, True

    def arrays(self) -> list[mx.array]:
        """Every array held by either side."""
        return self.key_side.arrays() + self.value_side.arrays()

    def byte_count(self) -> ByteCount:
        """Bytes by kind (counted)."""
        return self.key_side.byte_count() + self.value_side.byte_count()

    @property
    def nbytes(self) -> int:
        """Same as ``resident_bytes``, under mlx_lm's name."""
        return self.resident_bytes

    @property
    def fp16_key_bytes(self) -> int:
        """Bytes of the keys at 16 bits, uncompressed (counted)."""
        return _reference(self.key_side, self.offset)

    @property
    def fp16_value_bytes(self) -> int:
        """Bytes of the values at 16 bits, uncompressed (counted)."""
        return _reference(self.value_side, self.offset)

    @property
    def reference_bytes(self) -> int:
        """Bytes of keys and values at 16 bits (counted)."""
        return self.fp16_key_bytes + self.fp16_value_bytes

    @property
    def tokens_seen(self) -> int:
        """Tokens processed through update_and_fetch so far."""
        return self.offset

    def gauges(self) -> Mapping[str, float]:
        """Frontier and sink rows, tokens; plain numbers."""
        sinks = self.n_sink if self.frontier else 0
        return {"frontier": self.frontier, "sinks": sinks, "tail": self.offset - self.frontier}

    def empty(self) -> bool:
        """True before the first row."""
        return self.offset == 0

    def size(self) -> int:
        """Rows held."""
        return self.offset

    def is_trimmable(self) -> bool:
        """False: flushed rows exist as codes only. ``mark`` and ``rewind`` go back exactly."""
        return False

    def trim(self, n: int) -> int:
        """Trims nothing and returns 0."""
        return 0


@dataclass(frozen=True, slots=True)
class Tails:
    """What a compressed slot needs to go back; see ``marks.Kept``."""

    tokens: int
    lowest: int
    frontier: int
    unchecked: bool
    keys: SideMark
    values: SideMark

    def arrays(self) -> Iterator[mx.array]:
        """The exact tails of keys and values."""
        return (side.tail for side in (self.keys, self.values) if side.tail is not None)

    def bytes_at(self, tokens: int) -> int:
        """Bytes of tails that end at ``tokens``."""
        surplus = self.tokens - tokens
        return sum(a.nbytes - a.nbytes // max(1, a.shape[2]) * surplus for a in self.arrays())

    def cut(self, tokens: int) -> "Tails":
        """The same codes with a shorter tail."""
        surplus = self.tokens - tokens
        return replace(self, tokens=tokens, keys=self.keys.cut(surplus), values=self.values.cut(surplus))

    def put_back(self, slot: CompressedKVCache) -> None:
        """See ``marks.Kept``."""
        slot.put_back(self)


def flush_frontier(tokens: int, window: int, recent: int) -> int:
    """Rows behind the frontier at ``tokens`` rows: whole windows, ``recent`` rows left exact at least."""
    return max(0, tokens - recent) // window * window


def _peak(rows: mx.array) -> mx.array:
    """Largest absolute value, float32; NaN or infinity where there is one.

    Without the sign, floating-point numbers order as their bits do, and a CPU compares whole numbers sooner.
    """
    kind, magnitude = (mx.uint32, 0x7FFFFFFF) if rows.dtype == mx.float32 else (mx.uint16, 0x7FFF)
    return (rows.view(kind) & magnitude).max().view(rows.dtype).astype(mx.float32)


def _to_storage(rows: mx.array, *, in_range: bool) -> mx.array:
    """Rows in the 16-bit type they are kept in; clamped to float16's range, never inf."""
    if rows.dtype in (mx.bfloat16, mx.float16):
        return rows
    return rows.astype(mx.float16) if in_range else to_float16(rows)


def _reference(side: Side, tokens: int) -> int:
    return 0 if side.shape is None else side.shape[0] * side.shape[1] * side.shape[2] * 2 * tokens
