"""What a measurement leaves: frozen records of plain numbers, and the positions' own arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compared import SlotFidelity, finite
from ..telemetry import ByteCount
from .score import Scores


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, median and 99th percentile over the scored positions."""

    mean: float
    median: float
    p99: float

    @staticmethod
    def of(values: NDArray[np.float32]) -> "Spread":
        """Of at least one value, in float64."""
        wide = values.astype(np.float64)
        return Spread(float(wide.mean()), float(np.median(wide)), float(np.percentile(wide, 99)))

    def as_dict(self) -> dict[str, float | None]:
        """JSON-ready; a figure that is not finite is None."""
        return {"mean": finite(self.mean), "median": finite(self.median), "p99": finite(self.p99)}


@dataclass(frozen=True, slots=True)
class Phase:
    """Prefill or decode: speed and memory, measured in the same run as the reference's."""

    tokens: int
    seconds: float
    reference_seconds: float
    """What the uncompressed cache took for the same tokens."""
    peak_memory: int
    """Bytes: the largest of (memory this forward pass added at its highest + the cache before it). What
    the cache needs beyond the weights if it runs alone."""

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds

    @property
    def ratio(self) -> float:
        """Speed as a share of the uncompressed cache's."""
        return self.reference_seconds / self.seconds

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "tokens": self.tokens,
            "seconds": self.seconds,
            "tokens_per_second": self.speed,
            "ratio": self.ratio,
            "peak_memory": self.peak_memory,
        }


@dataclass(frozen=True, slots=True)
class MethodFidelity:
    """One cache of the run."""

    name: str
    """The configuration in the words of ``--method``."""
    config: Mapping[str, Any]
    plan: str
    """Which slots were replaced, in one sentence."""
    problem: str | None
    """Why the method ended early, in one sentence; its figures are those until then."""
    tokens: int
    """Tokens fed."""
    positions: int
    """Positions scored."""
    kl: Spread | None
    """Nats per token. None when no position was scored."""
    same_top1: float | None
    """Share of positions, 0 to 1."""
    perplexity: float | None
    """exp of the mean surprise at the real next token."""
    counted: ByteCount
    """After the text, before the extra decode steps."""
    resident_bytes: int
    """Sum of ``nbytes`` of the cache's arrays after the text (measured)."""
    reference_bytes: int
    """The same tokens at 16 bits (counted)."""
    memory_growth: int
    """What the text added to MLX's active memory for this cache (measured), bytes."""
    prefill: Phase | None
    """Blocks, evaluated as mlx_lm's prefill does: every slot's state, no logits."""
    decode: Phase | None
    """Single tokens, logits and states."""
    slots: tuple[SlotFidelity, ...] = ()
    scores: Scores | None = field(default=None, repr=False, compare=False)
    """The positions one by one."""

    def as_dict(self, *, positions: bool = False) -> dict[str, Any]:
        """JSON-ready; ``positions`` adds the value of every position."""
        record: dict[str, Any] = {
            "name": self.name,
            "config": dict(self.config),
            "plan": self.plan,
            "problem": self.problem,
            "tokens": self.tokens,
            "positions": self.positions,
            "kl_nats": self.kl.as_dict() if self.kl else None,
            "same_top1": self.same_top1,
            "perplexity": finite(self.perplexity),
            "counted_bytes": self.counted.as_dict() | {"total": self.counted.total},
            "resident_bytes": self.resident_bytes,
            "reference_bytes": self.reference_bytes,
            "memory_growth": self.memory_growth,
            "prefill": self.prefill.as_dict() if self.prefill else None,
            "decode": self.decode.as_dict() if self.decode else None,
            "slots": [slot.as_dict() for slot in self.slots],
        }
        if positions and self.scores is not None:
            record["per_position"] = {
                "kl_nats": [finite(value) for value in self.scores.kl.tolist()],
                "same_top1": self.scores.same_top1.tolist(),
                "nll_nats": [finite(value) for value in self.scores.nll.tolist()],
            }
        return record


@dataclass(frozen=True, slots=True)
class Measurement:
    """Several caches on the same text, fed side by side with the uncompressed reference."""

    tokens: int
    """Tokens of the text."""
    tokens_done: int
    """Tokens that all caches have read; fewer than ``tokens`` when the run was stopped."""
    block: int
    start: int
    """First scored position."""
    one_by_one: bool
    """Scored positions were fed one token at a time."""
    attention: str
    """In words, whether decode steps attended on codes, and if not, why."""
    complete: bool
    """False when the run was stopped before its end; what was done until then is here."""
    reference: MethodFidelity
    methods: tuple[MethodFidelity, ...]

    @property
    def rows(self) -> tuple[MethodFidelity, ...]:
        """The reference and the methods, in order."""
        return (self.reference, *self.methods)

    def as_dict(self, *, positions: bool = False) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "tokens": self.tokens,
            "tokens_done": self.tokens_done,
            "block": self.block,
            "start": self.start,
            "one_by_one": self.one_by_one,
            "attention": self.attention,
            "complete": self.complete,
            "reference": self.reference.as_dict(positions=positions),
            "methods": [method.as_dict(positions=positions) for method in self.methods],
        }
