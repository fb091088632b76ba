"""Parameters that several methods have under names of their own: declared once, with the same words."""

from typing import Any

from ..config import param


def recent_rows(filling: str) -> Any:
    """Newest rows that stay exact; ``filling`` is what gathers rows beside them."""
    return param(
        0, label="Exact recent rows", unit="tokens", low=0, high=1024, step=8, extension=True,
        help=f"Newest tokens that always stay exact, beside the filling {filling}. Costs their 16-bit rows.",
    )  # fmt: skip


def param_bits() -> Any:
    """Bits of a scale or zero point."""
    return param(
        16, label="Parameter bits", unit="bits", choices=(16, 8), extension=True,
        help="Bits of each scale and zero point. 8 halves what they take, at a little more error.",
    )  # fmt: skip


def defer_flush() -> Any:
    """Whether a call's own rows are flushed after it."""
    return param(
        False, label="Flush after the call", extension=True,
        help="Attend to the tokens of the running block exactly and flush them afterwards, so that a block "
        "of the prompt never sees itself quantized. Costs one block of exact rows while it is read.",
    )  # fmt: skip


def context_limit() -> Any:
    """Most tokens of a cache."""
    return param(
        None, label="Context limit", unit="tokens", low=1, high=10_000_000, step=1, shown=False,
        help="Refuse to grow beyond this many tokens. Empty is unlimited.",
    )  # fmt: skip
