"""Leaving the oldest turns out, so that a conversation fits the model's context again."""

from collections.abc import Sequence

from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.prompt import Turn, encode, encode_text

FREED = 0.25
"""Share of the context that is free afterwards: the next messages then follow without reading all again."""


def left_out(loaded: LoadedModel, turns: Sequence[Turn]) -> int:
    """How many of the oldest turns, the system prompt aside, must go for the rest to fit; 0 while all fit.

    The last message stays whatever its length, and what is left begins with a message of the person's.
    """
    context = loaded.context
    if context is None or len(encode(loaded.tokenizer, turns)) < context:
        return 0
    first = 1 if turns and turns[0][0] == "system" else 0
    lengths = [len(encode_text(loaded.tokenizer, text)) for _, text in turns]
    last = max(n for n, (role, _) in enumerate(turns) if role == "user")
    gone = 0
    while True:
        nexts = [n for n in range(first + gone + 1, last + 1) if turns[n][0] == "user"]
        if not nexts:
            return gone
        gone = nexts[0] - first
        kept = [*turns[:first], *turns[first + gone :]]
        estimate = sum(lengths[:first]) + sum(lengths[first + gone :])
        # The template's own tokens are not in the estimate: the last word has the tokenizer.
        if estimate < (1 - FREED) * context and len(encode(loaded.tokenizer, kept)) < (1 - FREED) * context:
            return gone
