"""How a reply is cut: the same however it comes, and quickly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.ui.segments import ENOUGH, LONGEST_LINE, TOO_MUCH, Splitter, split


def kinds(text: str) -> list[tuple[str, str]]:
    return [(segment.kind, segment.text) for segment in split(text)]


def test_words_and_code_apart() -> None:
    assert kinds("Look:\n\n```python title\nx = 1\n\ny = 2\n```\n\nDone.") == [
        ("prose", "Look:\n\n"), ("code", "x = 1\n\ny = 2\n"), ("prose", "Done."),
    ]  # fmt: skip
    assert split("```python title\nx\n```")[0].language == "python title"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```\na", [("code", "a")]),
        ("~~~\na\n```\nb\n~~~\nc", [("code", "a\n```\nb\n"), ("prose", "c")]),
        ("````\na\n```\nb\n`````", [("code", "a\n```\nb\n")]),
        ("  ```\n    a\n  b\n c\n  ```", [("code", "  a\nb\nc\n")]),
        ("```not code``` but a span", [("prose", "```not code``` but a span")]),
        (
            "- item\n\n      ```\n      x\n\n      ```\n",
            [("prose", "- item\n\n      ```\n      x\n\n      ```\n")],
        ),
        ("> ```\n> x\n> ```\n", [("prose", "> ```\n> x\n> ```\n")]),
        ("", []),
        ("\n\n", []),
        ("```\n```\n", [("code", "")]),
    ],
)
def test_fences(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nhm\n</think>\n\nYes.", [("thinking", "\nhm\n"), ("prose", "Yes.")]),
        ("  <think>hm</think>Yes.", [("thinking", "hm"), ("prose", "Yes.")]),
        ("<think>hm", [("thinking", "hm")]),
        ("hm\n```\nx\n```\nso\n</think>\nYes.", [("thinking", "hm\n```\nx\n```\nso\n"), ("prose", "Yes.")]),
        ("<think></think>Use `</think>` so.", [("thinking", ""), ("prose", "Use `</think>` so.")]),
        ("Say <think> aloud", [("prose", "Say <think> aloud")]),
    ],
)
def test_thinking(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


PIECES = st.lists(
    st.sampled_from(
        [
            "word ",
            "\n",
            "\n\n",
            "```",
            "```py\n",
            "`",
            "~~~",
            "<think>",
            "</think>",
            "</thi",
            "- a\n",
            "> q\n",
            "    x",
        ]
    ),
    max_size=30,
)


@settings(deadline=None)
@given(PIECES, st.randoms(use_true_random=False))
def test_how_it_comes_makes_no_difference(pieces: list[str], cut) -> None:  # type: ignore[no-untyped-def]
    text = "".join(pieces)
    splitter = Splitter()
    at = 0
    shown: list[tuple[str, str]] = []
    while at < len(text):
        step = cut.randint(1, 9)
        first = splitter.feed(text[at : at + step])
        at += step
        # What was said to stand does stand.
        now = [(s.kind, s.text) for s in splitter.segments]
        assert now[:first] == shown[:first]
        shown = now
    splitter.finish()
    assert [(s.kind, s.text) for s in splitter.segments] == kinds(text)


@settings(deadline=None)
@given(PIECES)
def test_nothing_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    shown = sum((segment.text + segment.language).count("word") for segment in split(text))
    assert shown == text.count("word")


def test_long_texts_come_in_segments_of_bounded_size() -> None:
    paragraphs = split("A paragraph of some words.\n\n" * 500)
    assert all(len(segment.text) < ENOUGH + 100 for segment in paragraphs) and len(paragraphs) > 5
    items = split("- an item of a list\n" * 5000)
    assert all(len(segment.text) < TOO_MUCH + 100 for segment in items)
    line = Splitter()
    for _ in range(10_000):
        line.feed("x" * 100)
    line.finish()
    assert all(len(segment.text) <= TOO_MUCH + LONGEST_LINE for segment in line.segments)
    assert "".join(segment.text for segment in line.segments) == "x" * 1_000_000


def test_lists_quotes_and_tables_stay_together() -> None:
    for line in ("- item\n\n", "1. item\n\n", "> quote\n\n", "  indented\n\n", "| a | b |\n\n"):
        assert len(split(line * 200)) == 1, line
