"""The stack: keys by SVDq, values by SKVQ's value side, under one flush frontier."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..config import SlotShape
from ..telemetry import ByteCount
from .skvq_cache import SKVQConfig, SKVQSide, rotation
from .svdq_cache import MEASURED_BEST, SVDqConfig, SVDqKVCache

_VALUES_BEST: dict[str, Any] = {
    "skvq_group_size": 64, "skvq_rotate": True, "skvq_param_bits": 8,
}  # fmt: skip


def _of_values(name: str, label: str) -> Any:
    """A parameter of SKVQ's, declared there, under a label that tells it from the keys'."""
    declared = SKVQConfig.__dataclass_fields__[name]
    words = dataclasses.replace(declared.metadata["param"], label=label)
    return dataclasses.field(default=declared.default, metadata={"param": words})


@dataclass(frozen=True)
class SVDqSKVQConfig(SVDqConfig):
    """SVDq keys with SKVQ values, so that both tensors shrink; they share sinks, groups and recent rows.

    Papers: arXiv:2502.15304 for the keys, arXiv:2405.06219 for the values, both adapted as told there.
    """

    label: ClassVar[str] = "SVDq + SKVQ"
    summary: ClassVar[str] = "Keys become a few latent coordinates of few bits, values codes of a few bits."
    paper: ClassVar[str] = "arXiv:2502.15304, arXiv:2405.06219"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "Balanced": {"svdq_avg_bits": 2.6, "svdq_group_size": 64} | MEASURED_BEST | _VALUES_BEST,
        "Smallest": {"svdq_avg_bits": 1.4} | MEASURED_BEST | _VALUES_BEST,
        "Near-lossless": {
            "svdq_avg_bits": 4.0, "svdq_group_size": 64, "skvq_bits_value": 4,
        } | MEASURED_BEST | _VALUES_BEST,
        "Documented": {},
    }  # fmt: skip

    skvq_bits_value: int = _of_values("skvq_bits_value", "Value bits")
    skvq_group_size: int = _of_values("skvq_group_size", "Value group")
    skvq_reorder: bool = _of_values("skvq_reorder", "Reorder value channels")
    skvq_clip_search: bool = _of_values("skvq_clip_search", "Search clip factor")
    skvq_clip_alpha: float = _of_values("skvq_clip_alpha", "Clip factor")
    skvq_rotate: bool = _of_values("skvq_rotate", "Rotate values")
    skvq_param_bits: int = _of_values("skvq_param_bits", "Value parameter bits")

    def check(self) -> None:
        """What either side refuses."""
        super().check()
        if self.skvq_rotate and self.head_dim is not None:
            rotation(self.head_dim)

    def inactive(self) -> dict[str, str]:
        """As for each side."""
        of_values = self.values.inactive()
        return super().inactive() | {name: why for name, why in of_values.items() if hasattr(self, name)}

    def misfit(self, shape: SlotShape) -> str | None:
        """As for each side."""
        values = dataclasses.replace(shape, key_dim=shape.value_dim)
        return super().misfit(shape) or self.values.misfit(values)

    @property
    def values(self) -> SKVQConfig:
        """The configuration of the value side."""
        return SKVQConfig(
            skvq_bits_value=self.skvq_bits_value,
            skvq_group_size=self.skvq_group_size,
            skvq_reorder=self.skvq_reorder,
            skvq_clip_search=self.skvq_clip_search,
            skvq_clip_alpha=self.skvq_clip_alpha,
            skvq_rotate=self.skvq_rotate,
            skvq_param_bits=self.skvq_param_bits,
            skvq_n_sink=self.svdq_n_sink,
            skvq_window=self.svdq_n_sink + self.svdq_group_size,
        )

    def make_cache(self, slot: int) -> "SVDqSKVQKVCache":
        """An empty cache for one slot."""
        return SVDqSKVQKVCache(self, slot)

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes of one slot at ``tokens`` tokens, in closed form; at most, where energy sets the rank."""
        values = self.values.side_bytes(tokens, self.frontier_at(tokens), shape, is_key=False)
        return self.predict_keys(tokens, shape) + values


class SVDqSKVQKVCache(SVDqKVCache):
    """KV cache of one slot under the stack. Takes an SVDqSKVQConfig (or one with the same fields)."""

    value_side: SKVQSide

    def __init__(self, config: SVDqSKVQConfig, slot: int = 0) -> None:
        values = config.values
        super().__init__(config, slot, SKVQSide(values, values.skvq_bits_value, is_key=False))

    @property
    def compressed_value_bytes(self) -> int:
        """Codes and parameters of the values behind the frontier, sinks left out (counted)."""
        count = self.value_side.store_bytes()
        return count.codes + count.parameters
