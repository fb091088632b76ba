"""What slots derived from mlx_lm's caches have in common: rows are only added and kept as they are."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from . import marks
from .dump import Dump, dump_attributes, restore_attributes
from .slot import SlotCache


class AppendedSlot(SlotCache):
    """Files, marks and trimming of a slot over the buffers of a cache of mlx_lm's; the first of its bases."""

    def dump(self) -> Dump:
        """The buffers as they are, padding included."""
        return dump_attributes(self)

    def restore(self, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
        """See SlotCache."""
        restore_attributes(self, arrays, facts)

    def kept(self) -> marks.Grown:
        """A count: rows are only ever added."""
        return marks.Grown.of(self)

    def trim(self, n: int) -> int:
        """Drop the newest ``n`` rows; marks beyond hold no longer."""
        dropped = int(super().trim(n))  # type: ignore[misc]
        marks.spend(self, self.offset)
        return dropped
