"""Numbers in words."""

import pytest

from studio.ui import words
from veloxquant_mlx.steps import Reuse


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "unknown"), (0, "0.0 MB"), (11_900_000, "11.9 MB"), (1_234_500_000, "1,234.5 MB"),
        (12_300_000_000, "12.3 GB"), (40_000, "0.04 MB"), (9_000, "9,000 bytes"),
    ],
)  # fmt: skip
def test_bytes(count: int | None, text: str) -> None:
    assert words.megabytes(count) == text


def test_what_is_unknown_is_never_a_zero() -> None:
    said = [
        words.size(None), words.number(None), words.count(None, "token"), words.speed(None),
        words.ratio(None), words.bit_width(None), words.parameters(None), words.number(float("nan")),
        words.speed(float("inf")), words.tokens_of(None, None),
    ]  # fmt: skip
    assert not any("0" in text for text in said)


def test_counts_have_separators_and_a_singular() -> None:
    assert words.count(1, "token") == "1 token"
    assert words.count(2048, "token") == "2,048 tokens"
    assert words.tokens_of(3104, 8192) == "3,104 of 8,192 tokens"


def test_other_figures() -> None:
    assert words.speed(14.06) == "14.1 tok/s"
    assert words.ratio(5.96) == "6.0×"
    assert words.bits(3.125) == "3.12 bits" and words.bits(1) == "1 bit"
    assert words.bit_width(4.5) == "4.5-bit" and words.bit_width(16.0) == "16-bit"
    assert words.parameters(134_515_008) == "135M parameters"
    assert words.size(98_362_432) == "98 MB" and words.size(4_610_000_000) == "4.6 GB"
    assert words.reason("stopped") == "stopped by you"


def test_text_that_could_deceive_is_made_plain() -> None:
    assert words.clean("a\ud800b") == "a\ufffdb"
    assert words.clean("pay \u202etxt.exe") == "pay txt.exe"
    assert words.clean("\ufdd0\ufffc\x00") == "\ufffd\ufffd\ufffd"
    assert words.clean("שלום\u200f, 日本語 😀\n\tx") == "שלום\u200f, 日本語 😀\n\tx"


def test_what_was_in_the_cache_is_told_while_reading_and_after() -> None:
    assert words.reading(256, 2000, None) == "Reading the prompt 256 of 2,000 tokens"
    assert words.reading(0, 40, Reuse(0, 0)) == "Reading the prompt 0 of 40 tokens"
    assert words.reading(0, 40, Reuse(1960, 0)) == (
        "Reading the prompt 0 of 40 tokens, 1,960 more were in the cache"
    )
    assert (
        words.reading(9, 2000, Reuse(0, 1960)) == "Reading the prompt 9 of 2,000 tokens, 1,960 of them again"
    )
    assert words.was_read(40, None) == words.was_read(40, Reuse(0, 0)) == ""
    assert words.was_read(1, Reuse(1960, 0)) == "Read 1 token; 1,960 more were in the cache."
    assert words.was_read(40, Reuse(1960, 31)) == (
        "Read 40 tokens, 31 of them again; 1,960 more were in the cache."
    )
    assert words.was_read(2000, Reuse(0, 1960)) == "Read 2,000 tokens, 1,960 of them again."
