"""Numbers and states in words, the same everywhere. What is unknown is said, never shown as 0."""

import math
from datetime import datetime

from veloxquant_mlx.report.words import UNKNOWN as UNKNOWN
from veloxquant_mlx.report.words import megabytes as megabytes
from veloxquant_mlx.steps import Reuse

REASONS = {
    "stop": "the model ended its reply",
    "length": "stopped at the limit of new tokens",
    "context": "stopped because the context is full",
    "stopped": "stopped by you",
    "failed": "ended by an error",
    "interrupted": "the app ended before the reply did",
}
"""FinishedStep.reason -> words."""

STATES = {
    "starting": "Getting the engine ready",
    "idle": "Ready",
    "loading": "Loading",
    "resuming": "Going back to the saved cache",
    "prefill": "Reading the prompt",
    "generating": "Generating",
    "side": "Answering side by side",
    "rereading": "Reading the conversation again",
}
"""Engine.state -> words."""
SAVING = "Saving the cache of the chat"
CLOSING = "The window closes as soon as the engine has ended and the cache of the chat is saved."


def size(count: float | None) -> str:
    """Size of a file or model: whole MB below 1 GB, GB with one decimal above."""
    if count is None:
        return "size " + UNKNOWN
    return f"{count / 1e9:,.1f} GB" if count >= 999.5e6 else f"{count / 1e6:,.0f} MB"


def number(value: float | None) -> str:
    """A whole number with thousands separators, other numbers with what they need."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}".rstrip("0").rstrip(".")


def count(value: int | None, noun: str) -> str:
    """``1 token``, ``2,048 tokens``, ``tokens unknown``."""
    if value is None:
        return f"{noun}s {UNKNOWN}"
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def tokens_of(tokens: int | None, context: int | None) -> str:
    """Tokens in the conversation beside what the model takes."""
    if tokens is None:
        return f"{context:,} tokens of context" if context else "context " + UNKNOWN
    return f"{tokens:,} of {context:,} tokens" if context else count(tokens, "token")


def speed(value: float | None) -> str:
    """Tokens per second."""
    return f"{value:,.1f} tok/s" if value is not None and math.isfinite(value) else "speed " + UNKNOWN


def seconds(value: float) -> str:
    """A span of time as a person would say it."""
    if value < 10:
        return f"{max(value, 0.1):.1f} s"
    return f"{value:,.0f} s" if value < 120 else f"{value / 60:,.0f} min"


def ratio(value: float | None) -> str:
    """How many times smaller than 16 bits."""
    return f"{value:,.1f}×" if value is not None and math.isfinite(value) else "no ratio yet"


def bits(value: float | None) -> str:
    """Bits, with at most two decimals."""
    return f"{number(value)} bits" if value != 1 else "1 bit"


def bit_width(value: float | None) -> str:
    """Width of a model's weights as an adjective."""
    return f"{number(round(value, 1))}-bit" if value else "weight bits " + UNKNOWN


def parameters(value: int | None) -> str:
    """Number of a model's parameters, short."""
    if not value:
        return "parameters " + UNKNOWN
    for step, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= step:
            return f"{value / step:.3g}{letter} parameters"
    return count(value, "parameter")


def reading(done: int, total: int, reuse: Reuse | None) -> str:
    """How far a prompt is read, and what of it the cache had."""
    said = f"Reading the prompt {done:,} of {total:,} tokens"
    if reuse is None or not (reuse.kept or reuse.again):
        return said
    facts = [f"{reuse.again:,} of them again"] if reuse.again else []
    return ", ".join([said, *facts, *([f"{reuse.kept:,} more were in the cache"] if reuse.kept else [])])


def was_read(total: int, reuse: Reuse | None) -> str:
    """What was read before a reply, in a sentence; '' where nothing could have been in the cache."""
    if reuse is None or not (reuse.kept or reuse.again):
        return ""
    again = f", {reuse.again:,} of them again" if reuse.again else ""
    kept = f"; {reuse.kept:,} more were in the cache" if reuse.kept else ""
    return f"Read {count(total, 'token')}{again}{kept}."


def reason(key: str) -> str:
    """Why a reply ended."""
    return REASONS.get(key, key)


def state(key: str) -> str:
    """What the engine is doing."""
    return STATES.get(key, key)


def when(seconds: float, now: float) -> str:
    """The day of a moment as people say it: today, yesterday, Tuesday, 3 March, 3 March 2024."""
    day, today = datetime.fromtimestamp(seconds).date(), datetime.fromtimestamp(now).date()
    past = (today - day).days
    if past <= 0:
        return "today"
    if past < 7:
        return "yesterday" if past == 1 else f"{day:%A}"
    return f"{day.day} {day:%B}" + (f" {day.year}" if day.year != today.year else "")


def clean(text: str) -> str:
    """Text that Qt can hold and a reader can trust.

    Lone surrogates and the characters Qt uses as marks inside documents become U+FFFD; controls that
    reorder text invisibly are dropped, so that what is read is what was written.
    """
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.translate(_CLEAN)


_CLEAN: dict[int, str | None] = dict.fromkeys((*range(8234, 8239), *range(8294, 8298)))
_CLEAN |= dict.fromkeys((*range(9), 11, *range(14, 32), 127, 64976, 64977, 65532), "�")
_CLEAN |= {0x0C: "\n"}
