"""A document that grew with its text is the document that the whole text makes."""

import random
from collections.abc import Iterator

import pytest
from PySide6.QtGui import QTextCursor, QTextDocument

from studio.ui import markdown
from studio.ui.theme import DARK

WORDS = "A cache keeps the keys and values of every token, so that none is computed again; that's its use."
TEXTS = {
    "words": f"{WORDS}\n\n{WORDS} 3.5% of it: well-known!\n\n{WORDS}",
    "marks": "It is **bold here** and *slanted there*, `code` too, ~~gone~~ and_not_this, 2 * 3 and **open",
    "headings": "# A title of words\n\nText below it\nwith a second line\n---\n\nUnder\n=====\nand on",
    "lists": "- one thing\n- another\n  that goes on\n\n1. first\n2. second one\n   - inner\n\nafter",
    "quotes": "> quoted words\nthat go on lazily\n> > deeper words\n\nout of it",
    "tables": "| a | b |\n|---|---|\n| one cell | two |\nlazy row\n\nbelow the table words",
    "links": "See www.example.org and http://example.org/a or mail me@example.org now; [a b](http://x.y) end",
    "reference": "[name]: http://example.org 'title words'\nthen words [name] and [open words (in it) here",
    "entities": "a &amp b &amp; c &copy; d",
    "code": "Words before\n\n```python\nx = 1 and more words\n```\nwords after\n\n    indented words\n\nend",
    "formulas": "The sum $a + b$ of words, \\(c d\\) and $5 for 6 of them",
    "blanks": "two  blanks  and a tab\there  \nbroken line\n\n\n\nmuch later",
    "pictures": "before ![alt words](x.png) after words",
    "other scripts": "名前は、猫です。 Das größte Übel; été naïf. 1. no list",
}


def tokens(text: str, seed: int) -> Iterator[str]:
    """Cut as a tokenizer might: mostly words with their blank in front, some in pieces."""
    chance = random.Random(seed)
    at = 0
    while at < len(text):
        end = text.find(" ", at + 1) if chance.random() < 0.7 else at + chance.randint(1, 4)
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = end


def end_of(document: QTextDocument) -> QTextCursor:
    """A cursor behind the last letter."""
    made = QTextCursor(document)
    made.movePosition(QTextCursor.MoveOperation.End)
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", TEXTS)
def test_grown_is_rendered(name: str, seed: int) -> None:
    grown, whole = markdown.SafeDocument(), markdown.SafeDocument()
    end = QTextCursor(grown)
    text = drawn = ""
    for token in tokens(TEXTS[name], seed):
        text += token
        if not (drawn and markdown.grow(end, drawn, text)):
            markdown.render(grown, text.rstrip("\n"), DARK, 1.0)
            end.movePosition(QTextCursor.MoveOperation.End)
        drawn = text
        markdown.render(whole, text.rstrip("\n"), DARK, 1.0)
        assert grown.toHtml() == whole.toHtml(), text


def test_words_grow_without_rendering() -> None:
    document = markdown.SafeDocument()
    text = WORDS[:2]
    markdown.render(document, text, DARK, 1.0)
    rendered = 0
    for token in tokens(WORDS[2:], 0):
        rendered += not markdown.grow(end_of(document), text, text + token)
        text += token
    assert rendered == 0


def test_what_is_too_long_for_markdown_does_not_grow() -> None:
    document = markdown.SafeDocument()
    line = "w" * (markdown.LONGEST_LINE - 1)
    markdown.render(document, line, DARK, 1.0)
    assert markdown.grow(end_of(document), line, line + "w")
    assert not markdown.grow(end_of(document), line + "w", line + "ww")
