"""Hostile text into a document: no HTML, no resources, and never a layout that takes seconds."""

import re
from typing import Any

from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QColor,
    QFont,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

from studio.ui import fonts, words
from studio.ui.theme import Tokens

LONGEST = 60_000
"""Characters beyond which a reply stays plain: rendering it would hold up the window."""
LONGEST_LINE = 4_000
"""Characters of one line beyond which a reply stays plain and is broken for the layout."""
DEEPEST = 16
"""Levels of nested quotes and lists beyond which a reply stays plain."""

_MARKERS = re.compile(r"(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))*[ \t]*")
_HEADINGS = {1: 17, 2: 15, 3: 13, 4: 13, 5: 13, 6: 13}


class SafeDocument(QTextDocument):
    """A document that never fetches anything, from disk or network."""

    def loadResource(self, type: int, name: QUrl | str) -> Any:
        """Nothing, whatever is asked for."""
        return None


def is_simple(text: str) -> bool:
    """True when Markdown rendering of ``text`` is known to be quick."""
    if len(text) > LONGEST:
        return False
    for line in text.split("\n"):
        if len(line) > LONGEST_LINE:
            return False
        lead = _MARKERS.match(line)
        run = lead.group() if lead else ""
        if len(re.findall(r">|[-*+]|\d+[.)]", run)) > DEEPEST or len(run.expandtabs(4)) > 6 * DEEPEST:
            return False
    return True


def broken(text: str) -> str:
    """``text`` with line breaks put into lines too long to be laid out as one paragraph."""
    lines = []
    for line in text.split("\n"):
        lines += [line[i : i + LONGEST_LINE] for i in range(0, len(line), LONGEST_LINE)] or [""]
    return "\n".join(lines)


def render(document: QTextDocument, text: str, t: Tokens, scale: float) -> bool:
    """Fill ``document`` with ``text`` as Markdown, or plain where that is safer. True for Markdown."""
    safe = words.clean(text)
    if not is_simple(safe):
        document.setPlainText(broken(safe))
        return False
    document.setMarkdown(safe, QTextDocument.MarkdownFeature(_FEATURES))
    _dress(document, t, scale)
    return True


_FEATURES = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub.value
    | QTextDocument.MarkdownFeature.MarkdownNoHTML.value
)


def _dress(document: QTextDocument, t: Tokens, scale: float) -> None:
    """Our type steps on headings, code on a raised surface, pictures as words."""
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    _pictures_as_words(document)
    block = document.begin()
    while block.isValid():
        form = block.blockFormat()
        cursor.setPosition(block.position())
        cursor.setPosition(block.position() + block.length() - 1, QTextCursor.MoveMode.KeepAnchor)
        level = form.headingLevel()
        if level:
            letters = QTextCharFormat()
            letters.setProperty(QTextFormat.Property.FontPixelSize, round(_HEADINGS.get(level, 13) * scale))
            letters.clearProperty(QTextFormat.Property.FontSizeAdjustment)
            letters.setProperty(QTextFormat.Property.FontSizeAdjustment, 0)
            letters.setFontWeight(QFont.Weight.DemiBold)
            cursor.mergeCharFormat(letters)
            _space(cursor, 12, 4)
        elif _is_code(block):
            letters = QTextCharFormat()
            letters.setFontFamilies([fonts.fixed_family()])
            letters.setProperty(QTextFormat.Property.FontPixelSize, round(12 * scale))
            cursor.mergeCharFormat(letters)
            surface = QTextBlockFormat()
            surface.setBackground(QColor(t.raised))
            surface.setLeftMargin(0)
            surface.setTopMargin(0)
            surface.setBottomMargin(0)
            surface.setNonBreakableLines(False)
            cursor.mergeBlockFormat(surface)
        elif cursor.currentList() is None and block.text():
            _space(cursor, 0, 8)
        block = block.next()
    _code_spans(document, t)
    cursor.endEditBlock()


def _space(cursor: QTextCursor, above: int, below: int) -> None:
    form = QTextBlockFormat()
    form.setTopMargin(above)
    form.setBottomMargin(below)
    cursor.mergeBlockFormat(form)


def _is_code(block: QTextBlock) -> bool:
    form = block.blockFormat()
    return form.hasProperty(QTextFormat.Property.BlockCodeFence) or form.hasProperty(
        QTextFormat.Property.BlockCodeLanguage
    )


def _pictures_as_words(document: QTextDocument) -> None:
    """Put the address in words where a picture would have been."""
    found: list[tuple[int, int, str]] = []
    for start, length, form in _fragments(document):
        if form.isImageFormat():
            found.append((start, length, form.toImageFormat().name()))
    for start, length, name in reversed(found):
        cursor = QTextCursor(document)
        cursor.setPosition(start)
        cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(f"[picture not loaded: {name}]", QTextCharFormat())


def _code_spans(document: QTextDocument, t: Tokens) -> None:
    for start, length, form in _fragments(document):
        if form.fontFixedPitch():
            cursor = QTextCursor(document)
            cursor.setPosition(start)
            cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
            letters = QTextCharFormat()
            letters.setBackground(QColor(t.raised))
            letters.setFontFamilies([fonts.fixed_family()])
            cursor.mergeCharFormat(letters)


def _fragments(document: QTextDocument) -> list[tuple[int, int, QTextCharFormat]]:
    """(position, length, format) of every run of text in one format."""
    found = []
    block = document.begin()
    while block.isValid():
        runs = block.begin()
        while not runs.atEnd():
            fragment = runs.fragment()
            if fragment.isValid():
                found.append((fragment.position(), fragment.length(), fragment.charFormat()))
            runs += 1
        block = block.next()
    return found
