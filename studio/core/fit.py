"""Whether a model fits this machine under a cache setting, in words. The arithmetic is the library's plan."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.models.disk import readable

if TYPE_CHECKING:
    from veloxquant_mlx.planning import Machine, MemoryPlan

FITS, TIGHT, TOO_LARGE = "fits", "tight", "will not fit"
LEAST = 1024
"""Tokens without room for which a model is of no use."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One model under one setting, all of it predicted."""

    state: str
    words: str
    """The state, with the figure that matters."""
    sentence: str
    tokens: int = 0
    """The longest context there is room for."""


def planned(info: Any, machine: "Machine", limit: float) -> "MemoryPlan":
    """The plan of a ModelInfo where ``limit``, a share of the machine's memory, may be used."""
    from veloxquant_mlx.planning import MemoryPlan

    return MemoryPlan.of(info, replace(machine, memory=round(machine.memory * limit)))


def fit_of(info: Any, config: KVCacheConfig | None, machine: "Machine", limit: float) -> Fit | None:
    """Fit of a ModelInfo, None where it is unknown; ``config`` None is the model's own cache."""
    if info.problem or not info.size_bytes:
        return None
    plan = planned(info, machine, limit)
    longest = plan.longest(config)
    least = plan.need(config, min(LEAST, info.context or LEAST))
    if longest is None or least is None:
        return None
    memory = readable(plan.machine.memory)
    if least.total > plan.machine.memory:
        need = readable(least.total)
        return Fit(
            TOO_LARGE,
            f"Will not fit: {need} of {memory}",
            f"Will not fit: about {need} needed, predicted, and {memory} may be used.",
        )
    if longest.by_memory and info.context is not None:
        about = f"about {rounded(longest.tokens):,}"
        return Fit(
            TIGHT,
            f"Tight: {about} tokens",
            f"Tight: room for {about} of its {info.context:,} tokens, predicted.",
            longest.tokens,
        )
    whole = plan.need(config, longest.tokens)
    need = readable(whole.total if whole is not None else least.total)
    return Fit(
        FITS,
        "Fits",
        f"Fits with its whole context of {longest.tokens:,} tokens: about {need}, predicted.",
        longest.tokens,
    )


def rounded(tokens: int) -> int:
    """Two digits of a prediction: rather a little too few than too many."""
    step = 10 ** max(0, len(str(tokens)) - 2)
    return tokens // step * step
