"""Where the files in ``assets/`` are: beside the packages, in a checkout, a wheel and a frozen app alike."""

from pathlib import Path


def asset(*parts: str) -> Path:
    """Path of a file below ``assets/``. It may not exist in a damaged installation."""
    return Path(__file__).resolve().parents[2].joinpath("assets", *parts)
