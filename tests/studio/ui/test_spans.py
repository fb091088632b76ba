"""Characters of what a model wrote, found again in what is shown of it."""

import pytest
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from studio.ui import markdown
from studio.ui.spans import aligned, shown_spans
from studio.ui.theme import DARK

TEXTS = [
    "Plain words, and **bold ones** with `code` and *more*.",
    "# A heading\n\n- first item\n- second [a link](http://example.org/first/second) item\n\n1. one\n2. two",
    "A quote:\n\n> of *some* words\n\n| a | b |\n|---|---|\n| one cell | two |\n\nand after the table.",
    "Formulas like $a_1 + b^2$ and snake_case_names, 2 * 3 * 4, and an emoji 🦊 before the end.",
    "Line one\nline two  \nline three &amp; more",
]

WORDS = ("words", "bold", "code", "item", "cell", "after", "snake", "end", "three", "two")


def span(text: str, word: str) -> tuple[int, int]:
    begin = text.index(word)
    return begin, begin + len(word)


@pytest.mark.parametrize("text", TEXTS)
def test_every_word_is_found_where_it_is_shown(qtbot: QtBot, text: str) -> None:
    document = QTextDocument()
    markdown.render(document, text, DARK, 1.0)
    shown = document.toPlainText()
    wide = shown.encode("utf-16-le")
    asked = [word for word in WORDS if word in text]
    assert asked
    for word, found in zip(asked, shown_spans(text, shown, [span(text, w) for w in asked]), strict=True):
        assert found is not None
        assert wide[2 * found[0] : 2 * found[1]].decode("utf-16-le") == word


def test_what_is_not_shown_has_no_place() -> None:
    text = "see [this](http://example.org/page) now"
    shown = "see this now"
    assert shown_spans(text, shown, [span(text, "http"), span(text, "now"), (3, 4)]) == [None, (9, 12), None]


def test_an_address_does_not_swallow_the_words_after_it() -> None:
    text = "[here](http://now.example.org/and/then) now and then"
    shown = "here now and then"
    places, found = aligned(text, shown)
    assert len(places) == len(found) == len(shown.replace(" ", ""))
    assert places == sorted(places) and found == sorted(found)


def test_places_count_as_qt_does() -> None:
    text = "🦊🦊 fox"
    assert shown_spans(text, text, [span(text, "fox")]) == [(5, 8)]
