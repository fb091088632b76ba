"""A way back for one slot: what has to be kept so that it can stand again exactly where it stood.

MLX's arrays do not change, but mlx_lm's caches write into theirs, and an array held twice is copied at the
next such write. So a mark keeps as little as the kind of slot allows: a count where rows are only ever added,
the exact rows where older ones become frozen codes, everything where rows are written over.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from ..errors import CacheError


class Kept(Protocol):
    """What a slot needs to go back, in the way of its kind."""

    @property
    def lowest(self) -> int:
        """Fewest tokens it can be cut to; where it stands when it cannot be cut."""

    def arrays(self) -> Iterator[mx.array]:
        """Arrays it keeps alive."""

    def bytes_at(self, tokens: int) -> int:
        """Bytes of those arrays once it is cut to so many tokens."""

    def cut(self, tokens: int) -> "Kept":
        """The same way back to fewer tokens, ``lowest`` at least."""

    def put_back(self, slot: Any) -> None:
        """Make the slot what it was. The kept arrays stay as they are: it can be done again."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class SlotMark:
    """Where one slot stood. Only that slot takes it back, and only until it goes back before it."""

    tokens: int
    kept: Kept

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays it keeps (measured)."""
        return self.kept.bytes_at(self.tokens)


_standing: WeakKeyDictionary[Any, WeakSet[SlotMark]] = WeakKeyDictionary()
"""Slot -> its marks that still hold. Beside the slots, because most of them are not of our making."""


def keep(slot: Any, tokens: int, kept: Kept) -> SlotMark:
    """A mark of the slot as it stands."""
    mark = SlotMark(tokens, kept)
    _standing.setdefault(slot, WeakSet()).add(mark)
    return mark


def cut(slot: Any, mark: SlotMark, tokens: int) -> SlotMark:
    """A smaller mark at fewer tokens, ``mark.kept.lowest`` at least; the first stays as it is."""
    return keep(slot, tokens, mark.kept.cut(tokens))


def require(slot: Any, mark: SlotMark) -> None:
    """Raises CacheError when the mark is another slot's or the slot went back before it since."""
    if mark not in _standing.get(slot, ()):
        raise CacheError(
            "This mark does not hold here: it was made on another cache, or the cache went back to before it."
        )


def go_back(slot: Any, mark: SlotMark) -> None:
    """Put the slot back; later marks of it are spent. Raises CacheError, see ``require``."""
    require(slot, mark)
    mark.kept.put_back(slot)
    spend(slot, mark.tokens)


def spend(slot: Any, tokens: int) -> None:
    """Rows from ``tokens`` on are gone: marks that stand beyond hold no longer."""
    held = _standing.get(slot, ())
    _standing[slot] = WeakSet(mark for mark in held if mark.tokens <= tokens)


@dataclass(frozen=True, slots=True)
class Grown:
    """mlx_lm's caches that only add rows, in buffers that grow by steps: a count is enough."""

    tokens: int
    capacity: int | None
    """Rows of the buffers; None before the first row."""

    @classmethod
    def of(cls, slot: Any) -> "Grown":
        """What is kept of a KVCache or a QuantizedKVCache."""
        buffers = [array for _, array in tree_flatten(slot.keys)] if slot.keys is not None else []
        return cls(slot.offset, buffers[0].shape[2] if buffers else None)

    @property
    def lowest(self) -> int:
        """See Kept: rows never change, so any of them may be the last."""
        return 0

    def arrays(self) -> Iterator[mx.array]:
        """None at all."""
        return iter(())

    def bytes_at(self, tokens: int) -> int:
        """0."""
        return 0

    def cut(self, tokens: int) -> "Grown":
        """See Kept."""
        return replace(self, tokens=tokens)

    def put_back(self, slot: Any) -> None:
        """See Kept. Buffers that grew since give what they grew by back."""
        slot.offset = self.tokens
        if self.capacity is None:
            slot.keys = slot.values = None
        elif slot.keys is not None:
            slot.keys, slot.values = tree_map(self._shortened, (slot.keys, slot.values))

    def _shortened(self, array: mx.array) -> mx.array:
        if array.shape[2] == self.capacity:
            return array
        short = mx.contiguous(array[:, :, : self.capacity])
        # One buffer after the other: never two caches in memory.
        mx.eval(short)
        return short


@dataclass(frozen=True, slots=True)
class Whole:
    """Any other cache: every attribute, as rows and states of it may be written over."""

    tokens: int
    attributes: dict[str, Any]

    @classmethod
    def of(cls, slot: Any, tokens: int) -> "Whole":
        """What is kept of a rotating, chunked or recurrent cache, or of a model's own."""
        return cls(tokens, _apart(vars(slot)))

    @property
    def lowest(self) -> int:
        """See Kept: a state cannot be cut."""
        return self.tokens

    def arrays(self) -> Iterator[mx.array]:
        """Every array of the cache."""
        return (leaf for _, leaf in tree_flatten(self.attributes) if isinstance(leaf, mx.array))

    def bytes_at(self, tokens: int) -> int:
        """See Kept."""
        return sum(array.nbytes for array in self.arrays())

    def cut(self, tokens: int) -> "Whole":
        """See Kept."""
        return self

    def put_back(self, slot: Any) -> None:
        """See Kept."""
        vars(slot).clear()
        vars(slot).update(_apart(self.attributes))


def _apart(tree: Any) -> Any:
    """The same tree with containers and array objects of its own: writing into one leaves the other."""
    return tree_map(lambda leaf: leaf[...] if isinstance(leaf, mx.array) else copy.deepcopy(leaf), tree)
