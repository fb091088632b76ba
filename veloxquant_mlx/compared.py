"""What comparing leaves of a token, of a reply and of a slot, as plain numbers: no array, no MLX."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TokenFidelity:
    """One token of a reply, under the cache it was written through and under the uncompressed one."""

    token: int
    kl: float
    """KL(uncompressed || written) in nats."""
    rank: int
    """1 where the uncompressed cache finds no other token likelier."""
    own_rank: int
    """The same under the cache it was written through: above 1 only where it was sampled."""
    likelihood: float
    """Probability under the uncompressed cache."""
    own_likelihood: float
    same_top1: bool
    """Whether both caches find the same token the likeliest."""
    top: int
    """The likeliest token under the uncompressed cache."""
    top_likelihood: float


@dataclass(frozen=True, slots=True)
class ReplyFidelity:
    """A whole reply, or the beginning of it that was kept."""

    start: int
    length: int
    """Tokens of the reply; ``tokens`` may be fewer."""
    tokens: tuple[TokenFidelity, ...]

    @property
    def mean_kl(self) -> float:
        """Nats per token."""
        return fmean(token.kl for token in self.tokens)

    @property
    def same_top1(self) -> float:
        """Share of tokens at which both caches find the same one the likeliest."""
        return fmean(token.same_top1 for token in self.tokens)

    @property
    def first_difference(self) -> int | None:
        """Position in the reply where the uncompressed cache would first have put another token first."""
        return next((n for n, token in enumerate(self.tokens) if not token.same_top1), None)


@dataclass(frozen=True, slots=True)
class SideFidelity:
    """Keys or values of one slot against the limit of their own covariance."""

    bits: float
    """Bits per coded element really used: codes, parameters and side data."""
    limit_bits: float
    """Bits per element that no coder of Gaussian rows can go below at the same error."""
    relative_error: float
    """||rows^ - rows|| / ||rows - mean|| over the coded rows (Frobenius)."""

    @property
    def distance(self) -> float:
        """Bits per element above the limit."""
        return self.bits - self.limit_bits

    def as_dict(self) -> dict[str, float | None]:
        """JSON-ready."""
        return {
            "bits": self.bits,
            "limit_bits": finite(self.limit_bits),
            "distance_bits": finite(self.distance),
            "relative_error": self.relative_error,
        }


@dataclass(frozen=True, slots=True)
class TellingHead:
    """The KV head whose queries' outputs hold most of a slot's attention-output error."""

    head: int
    factor: float
    """The slot's error over that of the head by itself at the few queries an estimate asks, both shares."""


@dataclass(frozen=True, slots=True)
class SlotFidelity:
    """One slot of the cache list, fed the uncompressed run's own rows."""

    slot: int
    replaced: bool
    attention_error: float | None = None
    """||attn(q, K^, V^) - attn(q, K, V)|| / ||attn(q, K, V)|| (Frobenius) over the last block's queries.
    None where the slot isn't ours or the model's queries can't be captured."""
    keys: SideFidelity | None = None
    """None before anything is compressed, and with no more coded rows than channels."""
    values: SideFidelity | None = None
    telling: "TellingHead | None" = None
    """The head that stands best for the slot; None without an error."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "slot": self.slot,
            "replaced": self.replaced,
            "attention_error": self.attention_error,
            "keys": self.keys.as_dict() if self.keys else None,
            "values": self.values.as_dict() if self.values else None,
        }


def finite(value: float | None) -> float | None:
    """None instead of NaN and infinity, which JSON has no words for."""
    return value if value is not None and math.isfinite(value) else None


def front(points: Iterable[_T], costs: Callable[[_T], tuple[float, float]]) -> list[_T]:
    """The points that no other beats in both of two costs, by the first of them, rising (Pareto)."""
    kept: list[_T] = []
    for point in sorted(points, key=costs):
        if not kept or costs(point)[1] < costs(kept[-1])[1]:
            kept.append(point)
    return kept
