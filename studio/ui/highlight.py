"""Code in colours: comments, texts, numbers and keywords of the languages people ask models for.

A scanner of its own, one pass over each line with a bounded expression: a lexer library takes longer to
import than a frame may last, and model text must not be able to make any expression slow.
"""

import re
from dataclasses import dataclass

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from studio.ui.theme import Tokens

LONGEST = 1_000
"""Characters of a line beyond which it stays plain."""

_C_WORDS = (
    "abstract as async await auto bool break case catch char class const constexpr continue def default "
    "delete do double else enum export extends extern false final finally float fn for from func function if "
    "impl implements import in instanceof int interface is let long match mod mut namespace new nil none "
    "null nullptr operator override package private protected pub public return self short signed sizeof "
    "static string struct super switch template this throw trait true try type typedef typeof union unsigned "
    "use using val var virtual void volatile when where while yield"
)
_PYTHON_WORDS = (
    "and as assert async await break case class continue def del elif else except False finally for from "
    "global if import in is lambda match None nonlocal not or pass raise return self True try while with "
    "yield"
)
_SHELL_WORDS = (
    "case do done elif else esac exit export fi for function if in local return set then until while"
)
_SQL_WORDS = (
    "add all alter and as asc between by case check create default delete desc distinct drop else end exists "
    "foreign from full group having in index inner insert into is join key left like limit not null on or "
    "order outer primary references right select set table then union unique update values view when where "
    "with"
)
_DATA_WORDS = "true false null yes no on off"


@dataclass(frozen=True, slots=True)
class _Family:
    """What languages of one kind have in common."""

    words: frozenset[str]
    line: str = ""
    """Expression for the beginning of a comment that ends with its line."""
    blocks: tuple[tuple[str, str], ...] = ()
    """Beginning and end of what goes over lines; the first character tells a comment from a text."""
    fold: bool = False
    """True where keywords may be written in capitals."""


def _family(
    words: str, line: str = "", blocks: tuple[tuple[str, str], ...] = (), fold: bool = False
) -> _Family:
    return _Family(frozenset(words.split()), line, blocks, fold)


_PYTHON = _family(_PYTHON_WORDS, "#", (('"""', '"""'), ("'''", "'''")))
_C = _family(_C_WORDS, "//", (("/*", "*/"),))
_SCRIPT = _family(_C_WORDS, "//", (("/*", "*/"), ("`", "`")))
_SHELL = _family(_SHELL_WORDS, r"(?<!\S)#")
_SQL = _family(_SQL_WORDS, "--", (("/*", "*/"),), fold=True)
_DATA = _family(_DATA_WORDS, "#|//")
_MARKUP = _family("", "", (("<!--", "-->"),))

_LANGUAGES = {
    name: family
    for names, family in (
        ("python py ruby rb r julia", _PYTHON),
        ("c cpp c++ h java rust rs swift kotlin kt csharp cs c# php scala dart css metal", _C),
        ("javascript js typescript ts jsx tsx go", _SCRIPT),
        ("bash sh shell zsh console dockerfile makefile", _SHELL),
        ("sql lua haskell", _SQL),
        ("json yaml yml toml ini", _DATA),
        ("html xml svg", _MARKUP),
    )
    for name in names.split()
}


def knows(language: str) -> bool:
    """True for a language that has colours here."""
    return language.lower() in _LANGUAGES


class Highlighter(QSyntaxHighlighter):
    """Colours a document as it grows, line by line."""

    def __init__(self, document: QTextDocument, language: str, t: Tokens) -> None:
        super().__init__(document)
        self._family = _LANGUAGES[language.lower()]
        starts = "|".join(re.escape(begin) for begin, _ in self._family.blocks)
        self._pattern = re.compile(
            "|".join(
                f"(?P<{name}>{pattern})"
                for name, pattern in (
                    ("block", starts),
                    ("comment", f"(?:{self._family.line}).*" if self._family.line else ""),
                    ("text", r'"(?:[^"\\]|\\.)*"?|' + r"'(?:[^'\\]|\\.)*'?"),
                    ("number", r"\b\d[\w.]*"),
                    ("word", r"[^\W\d]\w*"),
                )
                if pattern
            )
        )
        self.dress(t)

    def dress(self, t: Tokens) -> None:
        """Use another scheme's colours."""
        self._formats = {}
        for name, colour in (
            ("comment", t.muted), ("text", t.good), ("number", t.warn), ("word", t.accent)
        ):  # fmt: skip
            self._formats[name] = QTextCharFormat()
            self._formats[name].setForeground(QColor(colour))
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        """One line; its state is the number of the block that goes on below it, from 1."""
        self.setCurrentBlockState(0)
        at, inside = 0, max(0, self.previousBlockState())
        if len(text) > LONGEST:
            return
        while inside or at < len(text):
            if inside:
                begin, end = self._family.blocks[inside - 1]
                found = text.find(end, at)
                stop = len(text) if found < 0 else found + len(end)
                self._colour("comment" if begin[0] in "/<" else "text", at, stop)
                if found < 0:
                    self.setCurrentBlockState(inside)
                    return
                at, inside = stop, 0
                continue
            match = self._pattern.search(text, at)
            if match is None:
                return
            kind = match.lastgroup or ""
            at = match.end()
            if kind == "block":
                inside = 1 + [begin for begin, _ in self._family.blocks].index(match.group())
                self._colour("comment" if match.group()[0] in "/<" else "text", match.start(), at)
            elif kind != "word" or self._is_keyword(match.group()):
                self._colour(kind, match.start(), at)

    def _is_keyword(self, word: str) -> bool:
        return (word.lower() if self._family.fold else word) in self._family.words

    def _colour(self, kind: str, start: int, end: int) -> None:
        self.setFormat(start, end - start, self._formats[kind])
