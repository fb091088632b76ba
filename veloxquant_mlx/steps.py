"""The small records a reply is made of, in the order they come."""

from dataclasses import dataclass, field

from .telemetry import CacheSnapshot


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Whether one slot of the model's cache list is replaced, and why in one sentence."""

    slot: int
    replaced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a method will do to a model's cache list."""

    slots: tuple[SlotPlan, ...]

    @property
    def replaced(self) -> int:
        """Number of slots the method owns."""
        return sum(slot.replaced for slot in self.slots)

    @property
    def sentence(self) -> str:
        """The plan in one sentence for the screen."""
        total, ours = len(self.slots), self.replaced
        others = dict.fromkeys(slot.reason for slot in self.slots if not slot.replaced)
        if not ours:
            return "This model has no KV cache to compress: " + "; ".join(others) + "."
        if ours == total:
            return f"All {total} slots use this cache."
        return f"{ours} of {total} slots use this cache; the others: " + "; ".join(others) + "."


@dataclass(frozen=True, slots=True)
class PrefillStep:
    """Prompt tokens processed so far."""

    done: int
    total: int
    snapshot: CacheSnapshot
    pieces: tuple[str, ...] = field(default=(), repr=False)
    """Text of every token that entered the cache with this step, in order."""


@dataclass(frozen=True, slots=True)
class TokenStep:
    """One generated token. ``text`` may be empty while a character is incomplete."""

    text: str
    token: int
    count: int
    """Generated tokens of this reply, this one included."""
    snapshot: CacheSnapshot
    pieces: tuple[str, ...] = field(default=(), repr=False)
    """As in PrefillStep: with the first token the end of the prompt comes along."""


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """The end of a reply."""

    reason: str
    """``stop`` (the model ended), ``length`` (limit of new tokens), ``context`` (context full), ``stopped``
    (by the person)."""
    text: str
    prompt_tokens: int
    reply_tokens: int
    prefill_seconds: float
    decode_seconds: float
    snapshot: CacheSnapshot
    tokens: tuple[int, ...] = field(default=(), repr=False)

    @property
    def prefill_speed(self) -> float | None:
        """Prompt tokens per second (measured), or None when unknown."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds > 0 else None

    @property
    def decode_speed(self) -> float | None:
        """Generated tokens per second after the first (measured), or None when unknown."""
        steps = self.reply_tokens - 1
        return steps / self.decode_seconds if steps > 0 and self.decode_seconds > 0 else None


Step = PrefillStep | TokenStep | FinishedStep
