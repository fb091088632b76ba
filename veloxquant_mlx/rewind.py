"""Back to where a whole cache list stood, exactly: bit for bit as if it had never gone on.

Codes behind the flush frontier are frozen, so a mark keeps the exact rows and counts, never the codes; going
back shortens the stores. Slots of mlx_lm's own are kept as far as they write over what they hold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, KVCache, QuantizedKVCache

from .cache import marks
from .cache.marks import Grown, SlotMark, Whole
from .cache.slot import SlotCache, held_tokens
from .errors import CacheError


@dataclass(frozen=True, eq=False, slots=True)
class Mark:
    """Where a cache list stood. Holds until the list goes back to before it."""

    tokens: int
    slots: tuple[SlotMark, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays it keeps, those that the live caches still hold as well included (measured)."""
        return self.bytes_at(self.tokens)

    @property
    def lowest(self) -> int:
        """Fewest tokens it can be cut to: there it keeps the least."""
        return max((slot.kept.lowest for slot in self.slots), default=self.tokens)

    def bytes_at(self, tokens: int) -> int:
        """Bytes it would keep once cut to so many tokens."""
        return sum(slot.kept.bytes_at(tokens) for slot in self.slots)


def mark(caches: Sequence[Any], tokens: int | None = None) -> Mark:
    """Remember where the list stands, between two calls of the model.

    Args:
        tokens: what the list holds, for a model whose slots do not count; found in the slots otherwise.
    """
    if tokens is None:
        tokens = max(map(held_tokens, caches), default=0)
    made = Mark(tokens, tuple(mark_slot(slot, tokens) for slot in caches))
    _evaluate(made)
    return made


def lowest_at(caches: Sequence[Any], tokens: int) -> int:
    """``Mark.lowest`` of a mark that would be made at so many tokens.

    There a mark keeps the fewest exact rows; just ``tokens`` where a slot's state cannot be cut at all.
    """
    return max((_lowest_at(slot, tokens) for slot in caches), default=tokens)


def cut(caches: Sequence[Any], made: Mark, tokens: int) -> Mark:
    """A mark at fewer tokens than ``made``, ``made.lowest`` at least, that keeps fewer rows.

    It stands for the list as it was when it held so many tokens, rows computed as they were.
    Raises CacheError when ``made`` no longer holds.
    """
    _require(caches, made)
    if not made.lowest <= tokens <= made.tokens:
        raise CacheError(f"A mark at {made.tokens:,} tokens cannot be cut to {tokens:,}.")
    pairs = zip(caches, made.slots, strict=True)
    shorter = Mark(tokens, tuple(marks.cut(slot, item, tokens) for slot, item in pairs))
    _evaluate(shorter)
    return shorter


def rewind(caches: Sequence[Any], made: Mark) -> None:
    """Put the whole list back to where ``made`` was made; later marks no longer hold.

    Raises CacheError when ``made`` no longer holds; the list is then as it was.
    """
    _require(caches, made)
    for slot, item in zip(caches, made.slots, strict=True):
        marks.go_back(slot, item)


def _require(caches: Sequence[Any], made: Mark) -> None:
    if len(caches) != len(made.slots):
        raise CacheError(f"The mark is of {len(made.slots)} slots, the list has {len(caches)}.")
    for slot, item in zip(caches, made.slots, strict=True):
        marks.require(slot, item)


def _evaluate(made: Mark) -> None:
    """Have the rows now: unevaluated they would hold on to the buffers they are cut from."""
    mx.eval([array for item in made.slots for array in item.kept.arrays()])


def mark_slot(slot: Any, tokens: int) -> SlotMark:
    """Remember where one slot of any kind stands."""
    # A list that holds one of our caches is a SlotCache too, and goes back part by part.
    if isinstance(slot, CacheList):
        inner = tuple(mark_slot(part, tokens) for part in slot.caches)
        return marks.keep(slot, tokens, _Several(inner))
    if isinstance(slot, SlotCache):
        return slot.mark()
    if type(slot) in (KVCache, QuantizedKVCache):
        return marks.keep(slot, tokens, Grown.of(slot))
    return marks.keep(slot, tokens, Whole.of(slot, tokens))


def _lowest_at(slot: Any, tokens: int) -> int:
    if isinstance(slot, SlotCache):
        return slot.lowest_at(tokens)
    if isinstance(slot, CacheList):
        return lowest_at(slot.caches, tokens)
    return 0 if type(slot) in (KVCache, QuantizedKVCache) else tokens


@dataclass(frozen=True, slots=True)
class _Several:
    """The caches of mlx_lm's CacheList, each in its own way."""

    parts: tuple[SlotMark, ...]

    @property
    def lowest(self) -> int:
        """See Kept."""
        return max(part.kept.lowest for part in self.parts)

    def arrays(self) -> Iterator[mx.array]:
        """See Kept."""
        return (array for part in self.parts for array in part.kept.arrays())

    def bytes_at(self, tokens: int) -> int:
        """See Kept."""
        return sum(part.kept.bytes_at(tokens) for part in self.parts)

    def cut(self, tokens: int) -> "_Several":
        """See Kept."""
        return _Several(tuple(SlotMark(tokens, part.kept.cut(tokens)) for part in self.parts))

    def put_back(self, slot: Any) -> None:
        """See Kept."""
        for part, item in zip(slot.caches, self.parts, strict=True):
            item.kept.put_back(part)
            marks.spend(part, item.tokens)
