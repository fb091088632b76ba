"""Tokens as the texts they stand for."""

from collections.abc import Sequence
from typing import Any


class Pieces:
    """The texts of single tokens as the vocabulary has them, each looked up once.

    A token that is part of a character gives a replacement character.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, str] = {}

    def of(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """One text per token, in order."""
        for token in tokens:
            if token not in self._known:
                self._known[token] = self._text(token)
        return tuple(self._known[token] for token in tokens)

    def _text(self, token: int) -> str:
        text = str(self._tokenizer.decode([token]))
        # Decoders of vocabularies that mark spaces with this sign take the first one of a text away.
        marked = str(self._tokenizer.convert_ids_to_tokens(token)).startswith("\u2581")
        return " " + text if marked and not text.startswith(" ") else text
