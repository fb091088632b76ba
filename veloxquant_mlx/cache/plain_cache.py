"""No compression: mlx_lm's own KV cache, counted. The reference every method is measured against."""

from dataclasses import dataclass
from typing import ClassVar

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from ..config import KVCacheConfig, SlotShape
from ..telemetry import ByteCount
from .appended import AppendedSlot
from .slot import Absent


@dataclass(frozen=True)
class PlainConfig(KVCacheConfig):
    """Uncompressed rows at the precision the model computes in (float32 on a CPU, 16 bits on Metal)."""

    label: ClassVar[str] = "Uncompressed"
    summary: ClassVar[str] = "mlx_lm's own cache: every row as the model made it."
    compresses: ClassVar[bool] = False

    def make_cache(self, slot: int) -> "PlainKVCache":
        """An empty uncompressed cache."""
        return PlainKVCache()

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes in the model's own precision."""
        row = shape.width * shape.batch * shape.heads * (shape.key_dim + shape.value_dim)
        return ByteCount(exact=tokens * row)


class PlainKVCache(AppendedSlot, KVCache):
    """mlx_lm's KVCache with byte counts. ``resident_bytes`` shows its padding to steps of 256 rows."""

    to_quantized = Absent()

    def arrays(self) -> list[mx.array]:
        """The padded key and value buffers."""
        return [] if self.keys is None else [self.keys, self.values]

    def byte_count(self) -> ByteCount:
        """Rows in use at the dtype they are held in (counted)."""
        return ByteCount(exact=sum(a.nbytes // a.shape[2] * self.offset for a in self.arrays()))

    @property
    def reference_bytes(self) -> int:
        """The same rows at 16 bits (counted)."""
        return sum(a.size // a.shape[2] * self.offset * 2 for a in self.arrays())
