"""What all views draw from: one moment of one conversation."""

from dataclasses import dataclass

from studio.core.history import History
from studio.ui.charts.figures import fine
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import Plan
from veloxquant_mlx.telemetry import CacheSnapshot, LayerStats

WAITING = "Nothing compressed yet: the first tokens stay exact"


@dataclass(frozen=True, slots=True)
class Scene:
    """A history, the moment of it that is shown, and what is said about model and method."""

    history: History | None = None
    snapshot: CacheSnapshot | None = None
    """The cache at the moment shown; None while it holds nothing."""
    live: bool = True
    """Whether that is the newest moment."""
    plan: Plan | None = None
    method: type[KVCacheConfig] | None = None
    waiting: str = WAITING
    """What is said while nothing is compressed, without a full stop."""

    @property
    def layers(self) -> tuple[LayerStats, ...]:
        """The slots at the moment shown."""
        return () if self.snapshot is None else self.snapshot.layers

    def nothing(self, promise: str) -> str:
        """Why there are no tokens to draw, or nothing; ``promise`` says what the first will show."""
        if self.snapshot is None:
            return promise
        if self.snapshot.tokens:
            return ""
        held = fine(self.snapshot.resident_bytes)
        return f"This model caches no tokens: its state takes {held}, measured, however long the conversation"

    def reason(self, layer: LayerStats) -> str:
        """Why a slot is compressed or not, without a full stop."""
        said = "Compressed" if layer.replaced else "Not compressed"
        if self.plan is None or layer.slot >= len(self.plan.slots):
            return said
        return f"{said}: it {self.plan.slots[layer.slot].reason}"


def scene(
    history: History | None,
    moment: int | None = None,
    plan: Plan | None = None,
    method: type[KVCacheConfig] | None = None,
    waiting: str = WAITING,
) -> Scene:
    """The scene at the newest moment, or at the last row with at most ``moment`` tokens."""
    snapshot = None if history is None else history.snapshot if moment is None else history.moment(moment)
    if snapshot is not None and not (snapshot.layers and (snapshot.tokens or snapshot.resident_bytes)):
        snapshot = None
    return Scene(history, snapshot, moment is None, plan, method, waiting)
