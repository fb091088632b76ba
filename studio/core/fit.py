"""Whether a model fits this machine under a cache setting, in words. The rule is the library's own."""

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
    from veloxquant_mlx import planning

    plan = planned(info, machine, limit)
    longest = plan.longest(config)
    if info.problem or longest is None:
        return None
    least = min(LEAST, info.context or LEAST)
    wanted = info.context or max(least, longest.tokens)
    state = plan.fit(config, wanted, least=least, ease=1.0)
    need = plan.need(config, least if state == planning.Fit.TOO_LARGE else wanted)
    if state == planning.Fit.UNKNOWN or need is None:
        return None
    takes = readable(need.total)
    if state == planning.Fit.TOO_LARGE:
        memory = readable(plan.machine.memory)
        return Fit(
            TOO_LARGE,
            f"Will not fit: {takes} of {memory}",
            f"Will not fit: about {takes} needed, predicted, and {memory} may be used.",
        )
    about = f"about {rounded(longest.tokens):,}"
    if state == planning.Fit.TIGHT:
        room = f"Tight: room for {about} of its {wanted:,} tokens, predicted."
        return Fit(TIGHT, f"Tight: {about} tokens", room, longest.tokens)
    if info.context is None:
        room = f"Fits: room for {about} tokens, predicted; the model names no longest context of its own."
        return Fit(FITS, "Fits", room, longest.tokens)
    whole = f"Fits with its whole context of {wanted:,} tokens: about {takes}, predicted."
    return Fit(FITS, "Fits", whole, longest.tokens)


def rounded(tokens: int) -> int:
    """Two digits of a prediction: rather a little too few than too many."""
    step = 10 ** max(0, len(str(tokens)) - 2)
    return tokens // step * step
