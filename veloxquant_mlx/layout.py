"""The cache slots of a model as plain numbers: what grows in each, and what a method may replace."""

from dataclasses import dataclass

from .config import KVCacheConfig, SlotShape
from .steps import Plan, SlotPlan
from .telemetry import ByteCount

Words = tuple[str, str]
"""What one slot does, and what several do."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What one cache of mlx_lm's holds, as the model made it."""

    per_token: int = 0
    """Numbers of one row, keys and values together."""
    most: int | None = None
    """Rows it keeps at most: the length of a window or a chunk."""
    state: int = 0
    """Numbers it holds whatever the tokens."""
    own_bytes: int = 0
    """Bytes it holds beside those, in a type that the model's precision does not change."""

    def bytes_at(self, tokens: int, width: int) -> int:
        """Bytes at ``tokens`` tokens where one number takes ``width`` bytes (counted, padding left out)."""
        rows = tokens if self.most is None else min(tokens, self.most)
        return (self.per_token * rows + self.state) * width + self.own_bytes


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """One slot of a model's cache list."""

    left: Words | None
    """Why it stays as the model made it, whatever the method; None where it may be replaced."""
    shape: SlotShape | None
    """Of the rows a method may take over; None where there are none or nobody knows."""
    whole: tuple[Growth, ...] | None
    """All that is in it; None where that is unknown."""
    beside: tuple[Growth, ...] = ()
    """What stays in it when a method takes the rows, as a recurrent state does."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A model's cache list before anything is computed, and what decides over its compression."""

    slots: tuple[SlotLayout, ...]
    latents: bool = False
    meaning: str | None = None
    """What else is done with the rows, after "rows that"."""
    reads_rows: str | None = None
    """Why attention needs the rows themselves."""
    unfit: str | None = None
    """Why no slot may be compressed, as a run of the model found out."""

    @property
    def total(self) -> int:
        """Length of the list."""
        return len(self.slots)

    @property
    def kv(self) -> int:
        """Slots that hold a plain KV cache, by itself or beside a recurrent state."""
        return sum(slot.left is None for slot in self.slots)

    def plan(self, config: KVCacheConfig, decoded: str | None = None) -> Plan:
        """What a method does, slot by slot. ``decoded``: see ``Plan``."""
        return Plan(
            tuple(self._decide(index, slot, config) for index, slot in enumerate(self.slots)),
            config.compresses,
            decoded,
        )

    def cache_bytes(self, config: KVCacheConfig | None, tokens: int, width: int = 2) -> ByteCount | None:
        """Bytes of all slots under a method, or as the model made them where ``config`` is None (predicted).

        Args:
            width: bytes of one number in the precision the model computes in.

        None where the method or a slot can't tell.
        """
        total = ByteCount()
        for slot, replaced in zip(self.slots, self._replaced(config), strict=True):
            growths = slot.beside if replaced else slot.whole
            if growths is None:
                return None
            total = total + ByteCount(foreign=sum(part.bytes_at(tokens, width) for part in growths))
            if replaced and config is not None and slot.shape is not None:
                try:
                    total = total + config.predict(tokens, slot.shape.at(width))
                except (NotImplementedError, ValueError):
                    return None
        return total

    def _replaced(self, config: KVCacheConfig | None) -> list[bool]:
        if config is None:
            return [False] * len(self.slots)
        taken = [slot.replaced for slot in self.plan(config).slots]
        return [took and slot.shape is not None for took, slot in zip(taken, self.slots, strict=True)]

    def _decide(self, index: int, slot: SlotLayout, config: KVCacheConfig) -> SlotPlan:
        reason = slot.left or self._not_compressible(slot.shape, config)
        if reason is None:
            return SlotPlan(index, True, *alike(f"keys and values to {config.label}", "hand", "hands"))
        return SlotPlan(index, False, *reason)

    def _not_compressible(self, shape: SlotShape | None, config: KVCacheConfig) -> Words | None:
        """Why a slot that may be replaced is left by a method that compresses."""
        if not config.compresses:
            return None
        if self.latents:
            return alike("latents, compressed already", "hold", "holds")
        if self.meaning:
            return alike(f"rows that {self.meaning}", "hold", "holds")
        if self.unfit:
            return f"stays as it was: {self.unfit}", f"stay as they were: {self.unfit}"
        if self.reads_rows and not config.gives_rows:
            return alike(f"take packed rows: {self.reads_rows}", "can't", "can't")
        problem = None if shape is None else config.misfit(shape)
        return None if problem is None else alike(problem, "have", "has")


@dataclass(frozen=True, slots=True)
class Body:
    """The widths of a model that decide what a running pass takes beside weights and cache."""

    hidden: int
    inner: int
    """Channels between the two halves of one MLP, all experts of a token together."""
    queries: int
    """Query heads of one layer."""
    vocabulary: int


def alike(what: str, many: str, one: str) -> Words:
    """Words that differ only in their verb."""
    return f"{one} {what}", f"{many} {what}"
