"""Hostile text: nothing is fetched, nothing runs, nothing takes long."""

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextDocument

from studio.ui import markdown
from studio.ui.theme import DARK


def made(text: str, *, is_markdown: bool = True) -> markdown.SafeDocument:
    document = markdown.SafeDocument()
    document.setTextWidth(600)
    assert markdown.render(document, text, DARK, 1.0) is is_markdown
    return document


def test_markdown_becomes_words() -> None:
    document = made("# Title\n\nSome **bold** text.\n\n- one\n- two\n")
    assert document.toPlainText().split("\n")[:2] == ["Title", "Some bold text."]


def test_html_stays_text() -> None:
    document = made('<script>alert(1)</script> <img src="file:///etc/passwd"> <b>not bold</b>')
    assert "<script>alert(1)</script>" in document.toPlainText()
    assert "<b>not bold</b>" in document.toPlainText()


def test_pictures_are_named_and_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[QUrl] = []

    def answer(self: object, kind: int, name: QUrl) -> None:
        asked.append(name)

    monkeypatch.setattr(QTextDocument, "loadResource", answer)
    document = made("before ![a](file:///etc/passwd) ![b](http://example.org/x.png) after")
    document.size()
    assert document.toPlainText() == (
        "before [picture not loaded: file:///etc/passwd] [picture not loaded: http://example.org/x.png] after"
    )
    assert document.loadResource(2, QUrl("file:///etc/passwd")) is None
    assert asked == []


def test_code_keeps_its_lines_and_brackets() -> None:
    document = made('text\n\n```rust\nlet v = vec![1, 2];\n    println!("x");\n```\n\nafter `a![b]`')
    text = document.toPlainText()
    assert "let v = vec![1, 2];\n    println!" in text
    assert text.rstrip().endswith("after a![b]")


@pytest.mark.parametrize(
    "text",
    [
        "> " * 1000 + "deep",
        ">" * 1000,
        "- " * 500 + "deep",
        "\n".join("  " * depth + "- x" for depth in range(200)),
        "x" * 1_000_000,
        "word " * 20_000,
        "a\n" * 40_000,
    ],
    ids=["quotes", "tight quotes", "lists", "indented lists", "one line of 1 MB", "long", "many lines"],
)
def test_what_would_be_slow_stays_plain(text: str) -> None:
    document = made(text, is_markdown=False)
    assert document.toPlainText().replace("\n", "") == text.replace("\n", "")
    longest = max(len(line) for line in document.toPlainText().split("\n"))
    assert longest <= markdown.LONGEST_LINE


@pytest.mark.parametrize(
    "text",
    ["a\ud800b", "\udfff" * 50, "\u202etxt.exe\u202c", "\ufdd0\ufdd1\ufffc", "\x00\x01\x1b[31m", "", "\n\n"],
)
def test_odd_characters_are_survived(text: str) -> None:
    plain = made(text).toPlainText()
    assert not any("\ud800" <= c <= "\udfff" or c in "\u202e\ufdd0\x00\x1b" for c in plain)


def test_ordinary_code_and_tables_are_rendered() -> None:
    assert markdown.is_simple("def f():\n" + " " * 40 + "return 1\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert markdown.is_simple("-" * 200 + "\n\n1. one\n2. two\n   - three\n")
