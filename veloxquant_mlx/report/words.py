"""Figures in words, and text from elsewhere made safe to show. What is unknown is said, never shown as 0."""

import math
import re

UNKNOWN = "unknown"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def clean(text: str) -> str:
    """Text without controls, halves of characters and marks that reorder it invisibly."""
    return _HIDDEN.sub("\ufffd", text)


def megabytes(count: float | None) -> str:
    """Bytes as MB (1,000,000 bytes), GB from 10,000 MB on."""
    if count is None:
        return UNKNOWN
    mega = count / 1e6
    if mega >= 10_000:
        return f"{mega / 1000:,.1f} GB"
    if mega >= 0.01 or count == 0:
        return f"{mega:,.2f} MB" if mega < 1 and count else f"{mega:,.1f} MB"
    return f"{count:,.0f} bytes"


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    """A number with thousands separators and the digits it needs."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{digits}f}"
    return f"{text} {unit}".strip()


def setting(value: object) -> str:
    """A parameter's value as a person would say it."""
    if value is None:
        return "automatic"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
