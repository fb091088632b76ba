"""What comparing a conversation tells of it, and how that is kept with the messages. Neither Qt nor MLX."""

import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from veloxquant_mlx.compared import ReplyFidelity, SlotFidelity, TokenFidelity
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.spelling import read_method, spell_method

_log = logging.getLogger(__name__)

_COLUMNS = tuple(item.name for item in fields(TokenFidelity))


@dataclass(frozen=True, slots=True)
class ReplyComparison:
    """One reply compared, with the words to show it by."""

    message: int
    """Number of the message in the store."""
    offset: int
    ends: tuple[int, ...]
    config: KVCacheConfig
    """The setting it was written through."""
    pieces: tuple[str, ...] = field(repr=False)
    """Text of every token compared."""
    tops: tuple[str, ...] = field(repr=False)
    """Text of the token that the uncompressed cache finds the likeliest there."""
    fidelity: ReplyFidelity


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything measured by reading the conversation once more without compression."""

    tokens: int
    """Tokens of the conversation."""
    config: KVCacheConfig
    """The setting of the cache that the slots are compared for."""
    replies: tuple[ReplyComparison, ...]
    slots: tuple[SlotFidelity, ...]


@dataclass(frozen=True, slots=True)
class KeptComparison:
    """What is kept with one message: its parts in order, and the slots as of its newest comparison."""

    parts: tuple[ReplyComparison, ...]
    config: KVCacheConfig | None = None
    """The setting that the slots were compared for; None without slots."""
    slots: tuple[SlotFidelity, ...] = ()

    def packed(self) -> bytes:
        """For a file: some 25 bytes a token."""
        record = {
            "parts": [_part(part) for part in self.parts],
            "config": None if self.config is None else spell_method(self.config),
            "slots": [[slot.slot, slot.replaced, slot.attention_error] for slot in self.slots],
        }
        return zlib.compress(json.dumps(record, separators=(",", ":")).encode())


def unpacked(message: int, data: bytes) -> KeptComparison | None:
    """What ``packed`` gave; None for what this version can't read, which the log says."""
    try:
        record = json.loads(zlib.decompress(data))
        config = record["config"]
        return KeptComparison(
            tuple(_read_part(message, part) for part in record["parts"]),
            None if config is None else read_method(config),
            tuple(SlotFidelity(slot, replaced, error) for slot, replaced, error in record["slots"]),
        )
    except (zlib.error, ValueError, KeyError, TypeError, VeloxQuantError) as error:
        _log.warning("The comparison of message %d can't be read and is left out: %s", message, error)
        return None


def _part(part: ReplyComparison) -> dict[str, Any]:
    # Columns instead of rows: like numbers side by side take half the room.
    tokens = part.fidelity.tokens
    return {
        "offset": part.offset, "ends": part.ends, "config": spell_method(part.config),
        "pieces": part.pieces, "tops": part.tops,
        "start": part.fidelity.start, "length": part.fidelity.length,
        "tokens": {name: [_short(getattr(token, name)) for token in tokens] for name in _COLUMNS},
    }  # fmt: skip


def _read_part(message: int, part: Mapping[str, Any]) -> ReplyComparison:
    columns: list[Sequence[Any]] = [part["tokens"][name] for name in _COLUMNS]
    tokens = tuple(TokenFidelity(*values) for values in zip(*columns, strict=True))
    ends, pieces, tops = (tuple(part[name]) for name in ("ends", "pieces", "tops"))
    if not len(tokens) == len(pieces) == len(tops) <= len(ends):
        raise ValueError("tokens")
    fidelity = ReplyFidelity(part["start"], part["length"], tokens)
    return ReplyComparison(message, part["offset"], ends, read_method(part["config"]), pieces, tops, fidelity)


def _short(value: float) -> float:
    """Six digits of a measured figure are more than are shown."""
    return float(f"{value:.6g}") if isinstance(value, float) else value
