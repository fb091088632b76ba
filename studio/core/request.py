"""What the screen hands to the engine to have a conversation answered. Plain data, safe between threads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from veloxquant_mlx.prompt import Turn
from veloxquant_mlx.sampling import Sampling

Kind = Literal["reply", "regenerate", "continue"]


@dataclass(frozen=True, slots=True)
class Request:
    """A conversation given whole, and where its reply is kept while it grows."""

    kind: Kind
    turns: tuple[Turn, ...]
    """Role and text, the system prompt first; the last is the person's, or a reply that goes on."""
    sampling: Sampling
    drop: bool = False
    """True to leave the oldest turns out when the context can't hold all."""
    chat: int = 0
    """Number of the chat in the store; 0 is none."""
    message: int = 0
    """Number of the reply in the store."""
    journal: Path | None = None
    """The store's file; None keeps nothing on disk."""
    limit: int = 0
    """Percent of the machine's memory; where that seems too small the person is asked. 0 never asks."""
    model: str = ""
    cache: str = ""
    """What the reply is said to come from."""
