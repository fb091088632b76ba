"""Everything of a conversation that a report shows, taken at one moment: what comes later changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core.history import History
from veloxquant_mlx.telemetry import CacheSnapshot

if TYPE_CHECKING:
    # For their names only: they bring MLX.
    from studio.core.session import Message
    from veloxquant_mlx.fidelity import ReplyFidelity, SlotFidelity


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


def fidelity_record(
    replies: Sequence["ReplyFidelity"], slots: Sequence["SlotFidelity"]
) -> dict[str, Any] | None:
    """What was compared, as the report's schema has it; None where nothing was."""
    kl = [token.kl for reply in replies for token in reply.tokens]
    if not kl:
        return None
    return {
        "tokens": len(kl),
        "kl_nats_per_token": {"mean": fmean(kl), "p99": float(np.percentile(kl, 99))},
        "same_first_choice": fmean(token.same_top1 for reply in replies for token in reply.tokens),
        "kl_of_every_token": [round(value, 6) for value in kl],
        "slots": [{"slot": slot.slot, "attention_error": slot.attention_error} for slot in slots],
    }


def spoken(messages: Sequence["Message"]) -> tuple[tuple[str, str], ...]:
    """Role and words of a session's messages."""
    return tuple((message.role, message.content) for message in messages)
