"""How long work tells how far it is, and how it is stopped."""

from collections.abc import Callable

Progress = Callable[[float | None, str], None]
"""Called with the share done (0 to 1, or None when unknown) and words for the person.

May raise ``Cancelled``: the work then stops, undoes what it made and lets the exception through.
"""


def silent(share: float | None, words: str) -> None:
    """The progress callback of a caller who does not want to know."""
