"""From a conversation to the tokens a model reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import VeloxQuantError

if TYPE_CHECKING:
    from .models.load import LoadedModel

Turn = tuple[str, str]
"""Role (``user`` or ``assistant``) and text."""


def encode_within(loaded: "LoadedModel", turns: Sequence[Turn]) -> list[int]:
    """``encode`` for a loaded model. Raises VeloxQuantError when its context cannot hold the tokens."""
    tokens = encode(loaded.tokenizer, turns)
    if loaded.context is not None and len(tokens) >= loaded.context:
        raise VeloxQuantError(
            f"With this message the conversation is {len(tokens):,} tokens long, but {loaded.info.name} "
            f"reads at most {loaded.context:,}; shorten the message or start a new chat."
        )
    return tokens


def encode(tokenizer: Any, turns: Sequence[Turn]) -> list[int]:
    """Tokens of the conversation with the assistant's turn opened.

    Uses the tokenizer's chat template. A base model has none: the texts are then joined by blank
    lines and continued. Raises VeloxQuantError when the template fails.
    """
    # A lone surrogate, as a damaged paste can hold, has no UTF-8 form and would stop the tokenizer.
    clean = [(role, text.encode("utf-8", "replace").decode("utf-8")) for role, text in turns]
    if getattr(tokenizer, "has_chat_template", False):
        messages = [{"role": role, "content": text} for role, text in clean]
        try:
            tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
        except Exception as error:
            # A template is a program of the model's own: whatever goes wrong in it is one sentence.
            reason = " ".join(str(error).split()).rstrip(".")[:120] or type(error).__name__
            raise VeloxQuantError(
                f"The model's chat template can't take this conversation ({reason}): choose another model."
            ) from error
        return [int(token) for token in (tokens["input_ids"] if hasattr(tokens, "keys") else tokens)]
    return [int(token) for token in tokenizer.encode("\n\n".join(text for _, text in clean))]
