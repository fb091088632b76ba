"""Everything of a conversation that a report shows, taken at one moment: what comes later changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core.compared import KeptComparison
from studio.core.history import History
from veloxquant_mlx.spelling import spell_method
from veloxquant_mlx.telemetry import CacheSnapshot

if TYPE_CHECKING:
    # For its name only: it brings MLX.
    from studio.core.session import Message


@dataclass(frozen=True, slots=True)
class Taken:
    """Copies; nothing here is shared with who goes on."""

    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    slot_history: Mapping[str, Any] | None = None
    snapshot: CacheSnapshot | None = None
    """The newest of the history; None where there is none."""
    said: tuple[tuple[str, str], ...] | None = None
    """Role and words of every message shown, a running reply as far as it goes; None takes the session's."""
    fidelity: Mapping[str, Any] | None = None


def take(
    history: History | None,
    said: Sequence[tuple[str, str]] | None = None,
    fidelity: Mapping[str, Any] | None = None,
) -> Taken:
    """Copy what is there now."""
    words = None if said is None else tuple(said)
    if history is None or not len(history):
        return Taken(said=words, fidelity=fidelity)
    columns = {name: column.copy() for name, column in history.columns().items()}
    return Taken(columns, history.slots_as_dict(), history.snapshot, words, fidelity)


def fidelity_record(kept: Sequence[KeptComparison]) -> dict[str, Any] | None:
    """What was compared of messages, as the report's schema has it; None where nothing was.

    The slots are those of the newest message that tells of them.
    """
    parts = [part for one in kept for part in one.parts]
    tokens = [token for part in parts for token in part.fidelity.tokens]
    if not tokens:
        return None
    kl = [token.kl for token in tokens]
    measured = next((one for one in reversed(kept) if one.slots), KeptComparison(()))
    return {
        "tokens": len(kl),
        "through": list(dict.fromkeys(spell_method(part.config) for part in parts)),
        "kl_nats_per_token": {"mean": fmean(kl), "p99": float(np.percentile(kl, 99))},
        "same_first_choice": fmean(token.same_top1 for token in tokens),
        "kl_of_every_token": [round(value, 6) for value in kl],
        "slots": [{"slot": slot.slot, "attention_error": slot.attention_error} for slot in measured.slots],
        "slots_through": None if measured.config is None else spell_method(measured.config),
    }


def spoken(messages: Sequence["Message"]) -> tuple[tuple[str, str], ...]:
    """Role and words of a session's messages."""
    return tuple((message.role, message.content) for message in messages)
