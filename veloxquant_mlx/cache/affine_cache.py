"""mlx_lm's own quantized cache, counted: affine groups, everything quantized at once, no exact rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import QuantizedKVCache

from ..config import KVCacheConfig, SlotShape, param
from ..errors import CacheError
from ..quantizers.packing import packed_bytes
from ..telemetry import ByteCount
from .appended import AppendedSlot


@dataclass(frozen=True)
class AffineConfig(KVCacheConfig):
    """mlx_lm's QuantizedKVCache: min/max groups along the channels, newest token included.

    Models whose attention has learned sinks refuse it; head sizes must divide by the group.
    """

    label: ClassVar[str] = "mlx_lm quantized"
    summary: ClassVar[str] = "The quantized cache that mlx_lm ships: every row at once, no exact window."
    gives_rows: ClassVar[bool] = False

    affine_bits: int = param(
        4, label="Bits", unit="bits", choices=(2, 3, 4, 5, 6, 8),
        help="Bits of one code, keys and values alike.",
    )  # fmt: skip
    affine_group_size: int = param(
        64, label="Group", unit="channels", choices=(32, 64, 128),
        help="Channels that share one scale and zero point, stored at the model's own precision.",
    )  # fmt: skip

    def misfit(self, shape: SlotShape) -> str | None:
        """The group must divide the heads of keys and of values."""
        return _misfit(self.affine_group_size, shape.key_dim, shape.value_dim)

    def make_cache(self, slot: int) -> "AffineKVCache":
        """An empty quantized cache of mlx_lm's."""
        return AffineKVCache(slot, group_size=self.affine_group_size, bits=self.affine_bits)

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes in closed form, parameters in the model's own precision."""
        rows = tokens * shape.batch * shape.heads
        dims = (shape.key_dim, shape.value_dim)
        return ByteCount(
            codes=sum(rows * packed_bytes(dim, self.affine_bits) for dim in dims),
            parameters=sum(rows * -(-dim // self.affine_group_size) * 2 * shape.width for dim in dims),
        )


class AffineKVCache(AppendedSlot, QuantizedKVCache):
    """mlx_lm's QuantizedKVCache with byte counts; ``bits`` is wanted here, it selects mlx's kernel."""

    keys: Any
    values: Any

    def __init__(self, slot: int, group_size: int, bits: int) -> None:
        super().__init__(group_size=group_size, bits=bits)
        self.slot = slot

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        """Append rows; packed keys and values, as mlx_lm's cache gives them.

        Raises CacheError when the group does not divide the head size; the cache is then as it was.
        """
        if self.keys is None:
            problem = _misfit(self.group_size, keys.shape[3], values.shape[3])
            if problem is not None:
                raise CacheError(f"Slot {self.slot} has {problem}.")
            # The buffers mlx_lm would begin with hold whole codes per word: too wide for 3, 5 and 6 bits.
            self.keys, self.values = self._no_rows(keys), self._no_rows(values)
        return super().update_and_fetch(keys, values)

    def _no_rows(self, rows: mx.array) -> tuple[mx.array, ...]:
        batch, heads, _, dim = rows.shape
        words, groups = dim * self.bits // 32, dim // self.group_size
        shapes = ((words, mx.uint32), (groups, rows.dtype), (groups, rows.dtype))
        return tuple(mx.zeros((batch, heads, 0, width), dtype=dtype) for width, dtype in shapes)

    def arrays(self) -> list[mx.array]:
        """The padded codes, scales and biases of keys and values."""
        return [] if self.keys is None else [a for _, a in tree_flatten((self.keys, self.values))]

    def byte_count(self) -> ByteCount:
        """Rows in use (counted): uint32 words are codes, the rest are parameters."""
        codes = parameters = 0
        for array in self.arrays():
            used = array.nbytes // array.shape[2] * self.offset
            if array.dtype == mx.uint32:
                codes += used
            else:
                parameters += used
        return ByteCount(codes=codes, parameters=parameters)

    @property
    def reference_bytes(self) -> int:
        """The same rows at 16 bits (counted)."""
        words = sum(a.size // a.shape[2] for a in self.arrays() if a.dtype == mx.uint32)
        return words * 32 // self.bits * self.offset * 2


def _misfit(group: int, *dims: int) -> str | None:
    odd = next((dim for dim in dims if dim % group), None)
    if odd is None:
        return None
    return (
        f"heads of {odd} channels that can't be split into groups of {group}; choose a smaller group or "
        "another cache"
    )
