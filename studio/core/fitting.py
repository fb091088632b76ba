"""Leaving the oldest turns out, so that a conversation fits the model's context again."""

from collections.abc import Sequence
from dataclasses import dataclass

from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.prompt import SHORTER, Turn, check_context, encode, encode_text

FREED = 0.25
"""Share of the context that is free afterwards: the next messages then follow without reading all again."""
LEAVE_OUT = "shorten the message, start a new chat or have the oldest messages left out, which is a setting"
"""What else can be done where there are older ones."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What of a conversation is read."""

    turns: list[Turn]
    tokens: list[int]
    gone: int
    """How many of the oldest turns, the system prompt aside, are left out."""


def require_message(turns: Sequence[Turn]) -> None:
    """Raises VeloxQuantError where a conversation has nothing to answer."""
    if not turns:
        raise VeloxQuantError("There is no message to answer yet: write one first.")
    role, text = turns[-1]
    if role == "user" and not text.strip():
        raise VeloxQuantError("The message is empty: write something first.")


def fitted(loaded: LoadedModel, turns: Sequence[Turn], *, drop: bool) -> Fitted:
    """A conversation as the model can read it, ``drop`` leaves the oldest turns out where it must.

    The last message stays whatever its length, and what is left begins with a message of the person's.
    Raises VeloxQuantError where there is nothing to answer, or the context can't hold it even so.
    """
    require_message(turns)
    said = Fitted(list(turns), encode(loaded.tokenizer, turns), 0)
    if drop and loaded.context is not None and len(said.tokens) >= loaded.context:
        room = (1 - FREED) * loaded.context
        first = int(turns[0][0] == "system")
        lengths = [len(encode_text(loaded.tokenizer, text)) for _, text in turns]
        questions = [n for n, (role, _) in enumerate(turns) if role == "user" and n > first]
        for place in questions:
            # The template's own tokens are not in the estimate: the last word has the tokenizer.
            if place == questions[-1] or sum(lengths[:first]) + sum(lengths[place:]) < room:
                kept = [*turns[:first], *turns[place:]]
                said = Fitted(kept, encode(loaded.tokenizer, kept), place - first)
                if len(said.tokens) < room:
                    break
    older = any(role == "user" for role, _ in turns[:-1])
    check_context(loaded, len(said.tokens), SHORTER if drop or not older else LEAVE_OUT)
    return said
