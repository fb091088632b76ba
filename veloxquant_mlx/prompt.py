"""From a conversation to the tokens a model reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from .errors import VeloxQuantError

if TYPE_CHECKING:
    from .models.load import LoadedModel

Turn = tuple[str, str]
"""Role (``user`` or ``assistant``; ``system`` for the first one only) and text."""

SystemManner = Literal["template", "joined", "plain"]
"""How a model is told a system prompt: by its template, as the beginning of the first message, or, by a base
model without a template, as the beginning of the text that is continued."""


def encode_within(loaded: "LoadedModel", turns: Sequence[Turn]) -> list[int]:
    """``encode`` for a loaded model. Raises VeloxQuantError when its context cannot hold the tokens."""
    tokens = encode(loaded.tokenizer, turns)
    check_context(loaded, len(tokens))
    return tokens


SHORTER = "shorten the message or start a new chat"
"""What can be done about a conversation that is too long."""


def check_context(loaded: "LoadedModel", tokens: int, way_out: str = SHORTER) -> None:
    """Raises VeloxQuantError, which ends with ``way_out``, when the context of a model cannot hold so many
    tokens and one more."""
    if loaded.context is not None and tokens >= loaded.context:
        raise VeloxQuantError(
            f"With this message the conversation is {tokens:,} tokens long, but {loaded.info.name} "
            f"reads at most {loaded.context:,}; {way_out}."
        )


def encode(tokenizer: Any, turns: Sequence[Turn]) -> list[int]:
    """Tokens of the conversation with the assistant's turn opened; one that ends the turns goes on.

    Uses the tokenizer's chat template. A base model has none: the texts are then joined by blank
    lines and continued. Raises VeloxQuantError when the template fails.
    """
    # A lone surrogate, as a damaged paste can hold, has no UTF-8 form and would stop the tokenizer.
    clean = [(role, text.encode("utf-8", "replace").decode("utf-8")) for role, text in turns]
    if not getattr(tokenizer, "has_chat_template", False):
        return [int(token) for token in tokenizer.encode("\n\n".join(text for _, text in clean))]
    begun = clean.pop()[1] if clean and clean[-1][0] == "assistant" else ""
    if clean and clean[0][0] == "system" and system_manner(tokenizer) == "joined":
        system, (role, first), *rest = clean
        clean = [(role, f"{system[1]}\n\n{first}"), *rest]
    try:
        tokens = _apply(tokenizer, clean, tokenize=True)
    except Exception as error:
        # A template is a program of the model's own: whatever goes wrong in it is one sentence.
        reason = " ".join(str(error).split()).rstrip(".")[:120] or type(error).__name__
        raise VeloxQuantError(
            f"The model's chat template can't take this conversation ({reason}): choose another model."
        ) from error
    opened = [int(token) for token in (tokens["input_ids"] if hasattr(tokens, "keys") else tokens)]
    # Not by the template: many of them trim or rewrite a reply, and would close it.
    return opened + (encode_text(tokenizer, begun) if begun else [])


def encode_text(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a text in the middle of a conversation."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return [int(token) for token in tokenizer.encode(clean, add_special_tokens=False)]


def system_manner(tokenizer: Any) -> SystemManner:
    """How this model can be told a system prompt."""
    if not getattr(tokenizer, "has_chat_template", False):
        return "plain"
    try:
        shown = _apply(tokenizer, [("system", _MARK), ("user", "a")], tokenize=False)
    except Exception:
        # Some templates refuse the role, others leave its text out.
        return "joined"
    return "template" if _MARK in str(shown) else "joined"


_MARK = "a-system-prompt"


def _apply(tokenizer: Any, turns: Sequence[Turn], *, tokenize: bool) -> Any:
    messages = [{"role": role, "content": text} for role, text in turns]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=tokenize)
