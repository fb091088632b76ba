"""A slot of several caches, of which one is compressed and the others are the model's own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList

from ..telemetry import ByteCount, HeadBasis
from .base import CompressedKVCache
from .marks import SlotMark
from .slot import Absent, SlotCache, held_arrays, held_tokens


class MixedCache(CacheList, SlotCache):
    """mlx_lm's CacheList around one cache of a method and the model's own ones beside it.

    Bytes of the others are foreign; gauges and bases are those of the method's cache, ``own``.
    """

    merge = Absent()
    extract = Absent()

    @property
    def own(self) -> SlotCache:
        """The cache of the method."""
        return next(cache for cache in self.caches if isinstance(cache, SlotCache))

    def arrays(self) -> list[mx.array]:
        """Every array that any of the caches holds."""
        return self.own.arrays() + self._foreign()

    def byte_count(self) -> ByteCount:
        """Bytes by kind (counted); those of the model's own caches are foreign."""
        return self.own.byte_count() + ByteCount(foreign=self._foreign_bytes())

    @property
    def reference_bytes(self) -> int:
        """The method's rows at 16 bits (counted), and what the model's own caches hold."""
        return self.own.reference_bytes + self._foreign_bytes()

    def gauges(self) -> Mapping[str, float]:
        """Gauges of the method's cache."""
        return self.own.gauges()

    def heads(self) -> tuple[HeadBasis, ...]:
        """Bases of the method's cache."""
        return self.own.heads()

    def drift(self) -> tuple[float, ...]:
        """Drift of the method's cache."""
        return self.own.drift()

    def mark(self) -> SlotMark:
        """See SlotCache; every cache goes back in its own way."""
        from ..rewind import mark_slot

        return mark_slot(self, held_tokens(self))

    def _foreign(self) -> list[mx.array]:
        others = (cache for cache in self.caches if not isinstance(cache, SlotCache))
        return [array for cache in others for array in held_arrays(cache)]

    def _foreign_bytes(self) -> int:
        return sum(array.nbytes for array in self._foreign())


def own_cache(cache: Any) -> Any:
    """The method's cache in a slot: the slot itself, or the one among several; None in a foreign slot."""
    if isinstance(cache, MixedCache):
        return cache.own
    return cache if isinstance(cache, SlotCache) else None


def compressed_caches(caches: Sequence[Any]) -> Iterator[CompressedKVCache]:
    """The compressed caches of a list, those inside mixed slots too."""
    for cache in map(own_cache, caches):
        if isinstance(cache, CompressedKVCache):
            yield cache
