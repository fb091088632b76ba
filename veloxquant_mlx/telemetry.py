"""What leaves the engine: immutable plain numbers, never an array.

Every figure here is *counted* (closed form from what the cache holds) unless its name says
``resident`` or ``memory``, which are *measured* (``nbytes`` of the arrays, MLX's own statistics).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class ByteCount:
    """Bytes of a cache by kind. Adds up with ``+``."""

    codes: int = 0
    """Packed codes behind the flush frontier."""
    parameters: int = 0
    """Scales and zero points of the codes."""
    exact: int = 0
    """Window and tail rows kept at 16 bits (or at the model's own precision for a plain cache)."""
    sinks: int = 0
    """Leading rows kept at 16 bits."""
    side: int = 0
    """Permutations, means and bases, counted once."""
    foreign: int = 0
    """Slots the method may not replace: sliding windows, recurrent states."""

    @property
    def total(self) -> int:
        """Sum over all kinds, bytes."""
        return self.codes + self.parameters + self.exact + self.sinks + self.side + self.foreign

    def __add__(self, other: "ByteCount") -> "ByteCount":
        # Written out: a prediction over many token counts adds thousands of them for one frame of a drag.
        return ByteCount(
            self.codes + other.codes,
            self.parameters + other.parameters,
            self.exact + other.exact,
            self.sinks + other.sinks,
            self.side + other.side,
            self.foreign + other.foreign,
        )

    def as_dict(self) -> dict[str, int]:
        """Kind -> bytes, in the order of BYTE_KINDS."""
        return {kind: getattr(self, kind) for kind in BYTE_KINDS}


BYTE_KINDS: tuple[str, ...] = tuple(f.name for f in fields(ByteCount))

KIND_LABELS: Mapping[str, str] = {
    "codes": "codes",
    "parameters": "parameters",
    "exact": "exact rows",
    "sinks": "sinks",
    "side": "side data",
    "foreign": "foreign slots",
}


@dataclass(frozen=True, slots=True)
class HeadBasis:
    """The basis one head froze when it was fitted: the same object in every snapshot from then on."""

    rank: int
    """Latent channels kept."""
    spectrum: tuple[float, ...]
    """Share of the fitted keys' energy in each direction, falling, one per key channel; sums to 1."""
    bits: tuple[int, ...]
    """Bits of each latent channel, ``rank`` entries; 0 is not stored."""


@dataclass(frozen=True, slots=True)
class LayerStats:
    """One slot of the model's cache list at one moment."""

    slot: int
    replaced: bool
    """True when the chosen method owns the slot."""
    counted: ByteCount
    resident_bytes: int
    """Sum of ``nbytes`` of every array the slot holds (measured)."""
    reference_bytes: int
    """What the same tokens would take at 16 bits, uncompressed (counted)."""
    tokens: int
    gauges: Mapping[str, float] = field(default_factory=dict)
    """Named numbers of the method, for example ``frontier`` and ``sinks``."""
    heads: tuple[HeadBasis, ...] = ()
    """What each head froze, over batch rows and heads; empty for a method without a basis."""
    drift: tuple[float, ...] = ()
    """Per head, the share of the newest flushed keys' energy outside the frozen basis (measured)."""


@dataclass(frozen=True, slots=True)
class CacheSnapshot:
    """The whole cache list at one moment."""

    tokens: int
    layers: tuple[LayerStats, ...]
    active_memory: int
    """MLX's active memory, weights included, bytes (measured)."""
    peak_memory: int
    """MLX's peak since the run began, bytes (measured)."""

    @property
    def counted(self) -> ByteCount:
        """Sum over slots by kind."""
        counts = [layer.counted for layer in self.layers]
        return ByteCount(*(sum(getattr(count, kind) for count in counts) for kind in BYTE_KINDS))

    @property
    def resident_bytes(self) -> int:
        """Sum over slots, bytes (measured)."""
        return sum(layer.resident_bytes for layer in self.layers)

    @property
    def reference_bytes(self) -> int:
        """Sum over slots at 16 bits, bytes (counted)."""
        return sum(layer.reference_bytes for layer in self.layers)

    @property
    def ratio(self) -> float | None:
        """16-bit bytes over counted bytes, end to end; None before anything is compressed."""
        counted = self.counted
        return self.reference_bytes / counted.total if counted.codes and counted.total else None

    def gauge(self, name: str) -> float | None:
        """Smallest value of a gauge over the slots that have it, or None."""
        values = [layer.gauges[name] for layer in self.layers if name in layer.gauges]
        return min(values) if values else None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form, with the totals beside the slots."""
        return {
            "tokens": self.tokens,
            "counted_bytes": self.counted.as_dict() | {"total": self.counted.total},
            "resident_bytes": self.resident_bytes,
            "reference_bytes": self.reference_bytes,
            "active_memory": self.active_memory,
            "peak_memory": self.peak_memory,
            "slots": [asdict(layer) for layer in self.layers],
        }
