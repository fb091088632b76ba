"""Telling a caller how far a long piece of work is, and letting the caller stop it."""

from collections.abc import Callable

Progress = Callable[[float | None, str], None]
"""Called with a fraction from 0 to 1 (None when unknown) and words for a person.

It may raise ``Cancelled``: the work stops, undoes itself and lets it through.
"""


def silent(fraction: float | None, words: str) -> None:
    """A progress callback for callers who don't want to know."""


def part(progress: Progress, low: float, high: float) -> Progress:
    """A callback for one stage of the work: its 0 to 1 becomes ``low`` to ``high``."""

    def scaled(fraction: float | None, words: str) -> None:
        progress(None if fraction is None else low + (high - low) * min(1.0, max(0.0, fraction)), words)

    return scaled
