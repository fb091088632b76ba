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
    QTextFrameFormat,
    QTextTable,
)

from studio.ui import fonts, words
from studio.ui.theme import Tokens

LONGEST = 20_000
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


def broken(text: str, column: int = 0) -> str:
    """``text`` with line breaks put into lines too long to be laid out as one paragraph.

    ``column`` is how long the line already is that the text goes on with.
    """
    lines = []
    for line in text.split("\n"):
        room = max(0, LONGEST_LINE - column)
        pieces = [line[:room], *(line[i : i + LONGEST_LINE] for i in range(room, len(line), LONGEST_LINE))]
        lines += pieces if room or not line else pieces[1:] if not column else ["", *pieces[1:]]
        column = 0
    return "\n".join(lines)


def render(document: QTextDocument, text: str, t: Tokens, scale: float) -> bool:
    """Fill ``document`` with ``text`` as Markdown, or plain where that is safer. True for Markdown."""
    safe = words.clean(text)
    if not is_simple(safe):
        document.setPlainText(broken(safe))
        cursor = QTextCursor(document)
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.mergeBlockFormat(prose())
        return False
    document.setMarkdown(with_math(safe), QTextDocument.MarkdownFeature(_FEATURES))
    _dress(document, t, scale)
    return True


_LETTERS = re.compile(r"(?:[^\W_]|[,.;:!?'\"%-]| (?! ))*")
"""What means itself wherever it stands in a line of words."""
_IN_WORDS = re.compile(r"[ >]*(?:[-*+] +|\d{1,9}[.)] +)?[^\W\d_]")
"""Begins a line that is words by now, whatever follows."""


def grow(end: QTextCursor, drawn: str, text: str) -> bool:
    """Put what ``text`` has more than ``drawn`` at the end of the document that shows ``drawn``.

    ``end`` stands there and stays there: moving a cursor would lay the paragraph out once more. The document
    is then what ``render`` makes of ``text``, laid out anew only in its last paragraph. False, and nothing is
    done, where the new letters may mean more than themselves.
    """
    if not text.startswith(drawn) or len(text) > LONGEST:
        return False
    shown = drawn.rstrip(" ")
    new = text[len(shown) :].rstrip(" ")
    line = shown[shown.rfind("\n") + 1 :]
    word = line[line.rfind(" ") + 1 :]
    # A word that goes on can still become a link, an entity or a marked word.
    if not (_LETTERS.fullmatch(new) and _LETTERS.fullmatch(word)) or "www." in (word + new).lower():
        return False
    # An open bracket may be a link's, whose words are not to be seen.
    paragraph = shown[shown.rfind("\n\n") + 1 :]
    if not _IN_WORDS.match(line) or "[" in paragraph or len(line) + len(new) > LONGEST_LINE:
        return False
    letters, block = end.charFormat(), end.block()
    plain = letters.fontWeight() <= QFont.Weight.Normal and not (
        letters.isAnchor() or letters.fontItalic() or letters.fontFixedPitch() or letters.fontStrikeOut()
    )
    if not plain or _is_code(block) or not block.text().endswith(word) or end.currentTable() is not None:
        return False
    end.insertText(new)
    return True


_FEATURES = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub.value
    | QTextDocument.MarkdownFeature.MarkdownNoHTML.value
)


_CODE_OR_MATH = re.compile(
    r"(?P<code>^[ ]{0,3}(?:```|~~~)[\s\S]*?(?:^[ ]{0,3}(?:```|~~~)|\Z)|(?<!`)`[^`\n]+`(?!`))"
    r"|(?P<math>\$\$[^$]{1,2000}\$\$|\\\[(?:(?!\\\[)[\s\S]){1,2000}?\\\]"
    r"|\\\((?:(?!\\\()[^\n]){1,400}?\\\)"
    r"|(?<![\\$\w])\$(?![\s$])[^$\n`]{1,400}(?<![\s\\])\$(?![\w$]))",
    re.MULTILINE,
)
_MARKS = re.compile(r"([\\`*_{}\[\]()#+\-.!<>|~$&^=:])")


def with_math(text: str) -> str:
    """``text`` with the marks inside formulas escaped, so that LaTeX is shown as it was written."""
    return _CODE_OR_MATH.sub(lambda m: m["code"] or _MARKS.sub(r"\\\1", m["math"]), text)


def prose() -> QTextBlockFormat:
    """Lines with air between them, as running text is read."""
    form = QTextBlockFormat()
    form.setLineHeight(126, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    return form


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
            letters.setProperty(QTextFormat.Property.FontSizeAdjustment, 0)
            letters.setFontWeight(QFont.Weight.DemiBold)
            cursor.mergeCharFormat(letters)
            _space(cursor, 8, 4)
        elif _is_code(block):
            letters = QTextCharFormat()
            letters.setFontFamilies([fonts.fixed_family()])
            letters.setProperty(QTextFormat.Property.FontPixelSize, round(12 * scale))
            cursor.mergeCharFormat(letters)
            _space(cursor, 0, 0)
        else:
            cursor.mergeBlockFormat(prose())
            _space(cursor, 0, 4 if block.textList() is not None else 8)
        block = block.next()
    _spans(document, t, scale)
    _tables(document, t)
    cursor.endEditBlock()
    for first, last in reversed(_code_runs(document)):
        _frame(document, first, last, t)


def _code_runs(document: QTextDocument) -> list[tuple[int, int]]:
    """First and last position of every run of code lines outside of lists and quotes."""
    runs: list[tuple[int, int]] = []
    block, open_run = document.begin(), False
    while block.isValid():
        plain = _is_code(block) and block.blockFormat().indent() == 0
        if plain and open_run:
            runs[-1] = (runs[-1][0], block.position() + block.length() - 1)
        elif plain:
            runs.append((block.position(), block.position() + block.length() - 1))
        open_run = plain
        block = block.next()
    return runs


def _frame(document: QTextDocument, first: int, last: int, t: Tokens) -> None:
    """Move a run of code lines onto a raised surface."""
    form = QTextFrameFormat()
    form.setBackground(QColor(t.raised))
    form.setBorder(0)
    form.setPadding(10)
    form.setTopMargin(2)
    form.setBottomMargin(8)
    cursor = QTextCursor(document)
    cursor.setPosition(first)
    cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
    frame = cursor.insertFrame(form)
    # The frame leaves an empty line on each side: as thin as a line can be.
    for place in (frame.firstPosition() - 1, frame.lastPosition() + 1):
        beside = QTextCursor(document)
        beside.setPosition(max(0, min(place, document.characterCount() - 1)))
        if not beside.block().text():
            thin = QTextBlockFormat()
            thin.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
            beside.setBlockFormat(thin)


def _tables(document: QTextDocument, t: Tokens) -> None:
    """Hairlines instead of boxes."""
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            form = frame.format()
            form.setBorderBrush(QColor(t.line))
            form.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
            form.setBorder(1)
            form.setBorderCollapse(True)
            form.setCellPadding(5)
            form.setTopMargin(2)
            form.setBottomMargin(8)
            frame.setFormat(form)


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


def _spans(document: QTextDocument, t: Tokens, scale: float) -> None:
    """Code inside running text on its surface; bold in the one heavy weight we have."""
    for start, length, form in _fragments(document):
        letters = QTextCharFormat()
        if form.fontFixedPitch() and not _is_code(document.findBlock(start)):
            letters.setBackground(QColor(t.raised))
            letters.setFontFamilies([fonts.fixed_family()])
            letters.setProperty(QTextFormat.Property.FontPixelSize, round(12 * scale))
        if form.fontWeight() > QFont.Weight.DemiBold:
            letters.setFontWeight(QFont.Weight.DemiBold)
        if letters.propertyCount():
            cursor = QTextCursor(document)
            cursor.setPosition(start)
            cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
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
