"""Before a prompt is read that memory seems too small for: what it needs, and what would fit instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlx.utils import tree_flatten

from studio.core.fit import planned, rounded
from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.models.disk import readable
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.planning import Machine, MemoryPlan, plan_rows, this_machine


@dataclass(frozen=True, slots=True)
class Excess:
    """A prompt that would pass the limit. Bytes, all predicted but the weights."""

    tokens: int
    """Of the whole conversation."""
    need: int
    memory: int
    """What may be used."""
    longest: int
    """Tokens that fit as things are; 0 where none do."""
    smaller: KVCacheConfig | None = None
    """The setting that fits and saves no more than it must; None where none does."""
    smaller_name: str = ""
    smaller_need: int = 0

    @property
    def sentence(self) -> str:
        """What it needs."""
        return (
            f"Reading these {self.tokens:,} tokens needs about {readable(self.need)}, predicted, and "
            f"{readable(self.memory)} may be used."
        )

    @property
    def instead(self) -> str:
        """What would fit."""
        ways = []
        if self.smaller is not None:
            ways.append(f"{self.smaller_name} needs about {readable(self.smaller_need)} for the same tokens.")
        if self.longest:
            ways.append(f"As it is set now, a conversation of about {rounded(self.longest):,} tokens fits.")
        return " ".join(ways) or "No setting would make it fit: choose a smaller model."


def excess(
    loaded: LoadedModel,
    config: KVCacheConfig,
    tokens: int,
    limit: float,
    offered: Mapping[str, type[KVCacheConfig]],
    machine: Machine | None = None,
) -> Excess | None:
    """What stands against reading ``tokens`` tokens through a cache, or None.

    Args:
        limit: share of the machine's memory that may be used.
        offered: methods whose presets may be named instead.
        machine: None is this one.
    """
    weights = sum(array.nbytes for _, array in tree_flatten(loaded.model.parameters()))
    allowed = planned(loaded.info, machine or this_machine(), limit).machine
    plan = MemoryPlan.of(loaded.info, allowed, weights)
    need = plan.need(config, tokens)
    if need is None or need.total <= allowed.memory:
        return None
    longest = plan.longest(config)
    found = max(_fitting(plan, tokens, offered), key=lambda way: way[0], default=None)
    known: dict[str, Any] = {}
    if found is not None:
        known = {"smaller_need": found[0], "smaller": found[1], "smaller_name": found[2]}
    return Excess(tokens, need.total, allowed.memory, longest.tokens if longest else 0, **known)


def weigh(loaded: LoadedModel, config: KVCacheConfig, tokens: int, limit: float) -> Excess | None:
    """``excess`` of so many tokens on this machine; None also without a limit."""
    return excess(loaded, config, tokens, limit, methods()) if limit else None


def _fitting(
    plan: MemoryPlan, tokens: int, offered: Mapping[str, type[KVCacheConfig]]
) -> list[tuple[int, KVCacheConfig, str]]:
    """Presets that fit, each with its bytes."""
    needs = ((plan.need(row.config, tokens), row) for row in plan_rows(plan, offered))
    return [
        (need.total, row.config, row.name)
        for need, row in needs
        if need is not None and need.total <= plan.machine.memory
    ]
