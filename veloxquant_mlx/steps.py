"""The small records a reply is made of, in the order they come."""

from collections import Counter
from dataclasses import dataclass, field

from .telemetry import CacheSnapshot

PREFILL_BLOCK = 256
"""Prompt tokens of one forward pass."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Whether one slot of the model's cache list is replaced, and why."""

    slot: int
    replaced: bool
    reason: str
    """What the slot does, after "it": ``keeps a 1,024-token window of its own``."""
    many: str = ""
    """The same of several slots: ``keep a 1,024-token window of their own``."""

    @property
    def sentence(self) -> str:
        """The reason in one sentence."""
        return f"Slot {self.slot} {self.reason}."


@dataclass(frozen=True, slots=True)
class Plan:
    """What a method will do to a model's cache list."""

    slots: tuple[SlotPlan, ...]
    compresses: bool = True
    """False for a method that only counts."""
    decoded: str | None = None
    """Why attention decodes the rows instead of reading codes; None where it reads codes or nobody tried."""

    @property
    def replaced(self) -> int:
        """Number of slots the method owns."""
        return sum(slot.replaced for slot in self.slots)

    @property
    def idle(self) -> bool:
        """True when a method that compresses finds nothing to compress."""
        return self.compresses and not self.replaced

    @property
    def sentence(self) -> str:
        """The plan in one sentence for the screen."""
        total, ours = len(self.slots), self.replaced
        what = "compressed" if self.compresses else "kept as plain rows"
        if ours == total:
            return f"All {total} slots {what}." if total > 1 else f"The only slot is {what}."
        left = Counter((slot.reason, slot.many or slot.reason) for slot in self.slots if not slot.replaced)
        listed = "; ".join(f"{n} {many if n > 1 else one}" for (one, many), n in left.items())
        if ours:
            return f"{ours} of {total} slots {what}: {listed}."
        if len(left) == 1:
            one, many = next(iter(left))
            listed = f"they {many}" if total > 1 else f"it {one}"
        return f"None of {total} slots {what}: {listed}."

    @property
    def words(self) -> str:
        """The plan and what follows from it: uncompressed chat, or rows that every step decodes."""
        if self.idle:
            return f"{self.sentence} The model chats without compression."
        if self.compresses and self.decoded is not None:
            return f"{self.sentence} Every step decodes the rows: {self.decoded}."
        return self.sentence


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a conversation found in the cache before its prompt was read."""

    kept: int
    """Tokens that stayed in the cache and are not read again."""
    again: int
    """Tokens it had read before and has to read once more."""


@dataclass(frozen=True, slots=True)
class PrefillStep:
    """Prompt tokens processed so far, those left out that the cache held before."""

    done: int
    total: int
    snapshot: CacheSnapshot
    pieces: tuple[str, ...] = field(default=(), repr=False)
    """Text of every token that entered the cache with this step, in order."""
    reuse: Reuse | None = None
    """Told with the first step of a conversation's reply, when nothing is read yet."""


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
    reuse: Reuse | None = None
    prefill_peak: int | None = None
    """MLX's peak memory while the prompt was read, weights included, bytes (measured)."""
    decode_peak: int | None = None
    """The same while the reply was written; None where nothing was."""

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
