"""What every cache of ours has beside mlx_lm's protocol: bytes by kind, gauges, a way back."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import mlx.core as mx
from mlx.utils import tree_flatten

from ..telemetry import ByteCount, CacheSnapshot, HeadBasis, LayerStats
from . import marks
from .dump import Dump


class Absent:
    """A name that ``hasattr`` must not find, although the base class has it.

    mlx_lm swaps caches that have ``merge`` or ``to_quantized`` for its own uncompressed or
    differently compressed ones.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"{owner.__name__ if owner else 'This cache'} has no '{self.name}'")


class SlotCache:
    """Bytes and gauges that telemetry reads from a slot, which evaluates no array, and a way back."""

    offset: int

    def byte_count(self) -> ByteCount:
        """Bytes by kind, counted in closed form."""
        raise NotImplementedError

    def arrays(self) -> list[mx.array]:
        """Every array the slot holds."""
        raise NotImplementedError

    @property
    def reference_bytes(self) -> int:
        """Bytes of the same tokens at 16 bits, uncompressed (counted)."""
        raise NotImplementedError

    @property
    def resident_bytes(self) -> int:
        """Sum of ``nbytes`` of every array held (measured)."""
        return sum(array.nbytes for array in self.arrays())

    def gauges(self) -> Mapping[str, float]:
        """The method's named numbers, as declared in its configuration class."""
        return {}

    def heads(self) -> tuple[HeadBasis, ...]:
        """What each head froze at the fit; empty before it and for a method without a basis."""
        return ()

    def drift(self) -> tuple[float, ...]:
        """Per head, the share of the newest flushed keys' energy outside the basis; empty when unknown."""
        return ()

    def mark(self) -> marks.SlotMark:
        """Remember where the slot stands, between two calls of the model."""
        return marks.keep(self, self.offset, self.kept())

    def rewind(self, mark: marks.SlotMark) -> None:
        """Stand there again, bit for bit as if no row had come since; later marks no longer hold.

        Raises CacheError when the mark is another slot's or the slot went back to before it since; the
        slot is then as it was.
        """
        marks.go_back(self, mark)

    def dump(self) -> Dump:
        """Everything ``restore`` needs: arrays by name, and plain JSON-ready facts."""
        raise NotImplementedError

    def restore(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """Make this empty slot the one that gave ``dump``; both are of the same configuration.

        Raises ValueError, KeyError or TypeError when they do not fit together or the configuration: the
        slot is then of no use.
        """
        raise NotImplementedError

    def lowest_at(self, tokens: int) -> int:
        """Fewest tokens that a mark made at so many could be cut to: there it keeps the fewest rows."""
        return 0

    def kept(self) -> marks.Kept:
        """What has to be kept so that the slot can come back to where it stands."""
        raise NotImplementedError


def layer_stats(slot: int, cache: Any) -> LayerStats:
    """Plain numbers of one slot; a slot of another class is reported as foreign with its real bytes."""
    if isinstance(cache, SlotCache):
        return LayerStats(
            slot=slot,
            replaced=True,
            counted=cache.byte_count(),
            resident_bytes=cache.resident_bytes,
            reference_bytes=cache.reference_bytes,
            tokens=held_tokens(cache),
            gauges=dict(cache.gauges()),
            heads=cache.heads(),
            drift=cache.drift(),
        )
    held = sum(array.nbytes for array in held_arrays(cache))
    return LayerStats(slot, False, ByteCount(foreign=held), held, held, held_tokens(cache))


def snapshot(caches: Sequence[Any], tokens: int | None = None) -> CacheSnapshot:
    """The whole cache list as plain numbers, with MLX's own memory figures. Evaluates nothing.

    Args:
        tokens: how many were read and written; None takes the largest number that a slot knows, which
            is 0 where every slot keeps a recurrent state.
    """
    layers = tuple(layer_stats(slot, cache) for slot, cache in enumerate(caches))
    known = max((layer.tokens for layer in layers), default=0)
    return CacheSnapshot(
        known if tokens is None else tokens, layers, mx.get_active_memory(), mx.get_peak_memory()
    )


def held_arrays(cache: Any) -> list[mx.array]:
    """Every array in the state of a cache that is not ours."""
    return [array for _, array in tree_flatten(cache.state) if isinstance(array, mx.array)]


def held_tokens(cache: Any) -> int:
    """Tokens a cache or the longest of several in one slot has seen; 0 for a recurrent state."""
    if isinstance(inner := getattr(cache, "caches", None), Sequence):
        return max(map(held_tokens, inner), default=0)
    return int(getattr(cache, "offset", 0))
