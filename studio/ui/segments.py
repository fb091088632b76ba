"""A reply cut into what is shown apart, while it still comes: running text, code blocks, thinking.

Text is only ever added at the end, and a segment that was followed by another never changes again, so the
screen lays out again no more than the last one. Plain string work, known to be quick for any text.
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["prose", "code", "thinking"]

ENOUGH = 1_200
"""Characters after which running text may be continued in another segment, at the end of a paragraph."""
TOO_MUCH = 12_000
"""Characters after which it is, at the end of a line."""
LONGEST_LINE = 4_000
"""Characters of one line that are kept together."""

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^\n]*)")
_MAYBE_FENCE = re.compile(r" {0,3}(`+|~+)[^`~\n]{0,80}\Z")
_NESTED_FENCE = re.compile(r"[ \t>*+\-\d.)]*(`{3,}|~{3,})")
_GOES_ON = re.compile(r"[ \t>|*+\-]|\d+[.)][ \t]")
"""Begins a line that belongs to a list, quote or table above it."""
_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(slots=True)
class Segment:
    """One piece; ``closed`` once something else follows it."""

    kind: Kind
    text: str = ""
    language: str = ""
    """All that stands behind the opening fence."""
    closed: bool = False


class Splitter:
    """Feed it text as it comes; ``segments`` is the whole of it, ``finish`` closes the last.

    Only whole lines decide. The beginning of one is shown where it would go as words, and taken back when
    the rest of it comes.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._tail = ""
        """The line that has not ended."""
        self._shown: Segment | None = None
        """Where the tail is shown meanwhile."""
        self._middle = False
        """True when the line began in a piece that was cut off for its length."""
        self._fence = ""
        self._indent = 0
        self._inner = ""
        """A fence inside a list or quote, which stays in the running text."""
        self._blank = False
        self._thought = False

    def feed(self, text: str) -> int:
        """Take more text; the number of the first segment that changed (all before it stand)."""
        first = self._take_back()
        *lines, tail = (self._tail + text).split("\n")
        for line in lines:
            first = min(first, self._pieces(line + "\n"))
        while len(tail) > LONGEST_LINE:
            first = min(first, self._line(tail[:LONGEST_LINE]))
            tail = tail[LONGEST_LINE:]
        self._tail = tail
        if tail and not self._may_be_more(tail):
            if not self.segments or self.segments[-1].closed:
                self.segments.append(Segment("prose"))
            self._shown = self.segments[-1]
            self._shown.text += tail
        return first

    def finish(self) -> int:
        """No more comes; returns like ``feed``."""
        first = self._take_back()
        if self._tail:
            first = min(first, self._line(self._tail))
            self._tail = ""
        self._close()
        return first

    def _take_back(self) -> int:
        """Take the tail out of the segment it was shown in; the first segment that can change now."""
        first = max(0, len(self.segments) - 1)
        if self._shown is not None:
            self._shown.text = self._shown.text[: len(self._shown.text) - len(self._tail)]
            if not self._shown.text and self._shown.kind == "prose":
                self.segments.pop()
            self._shown = None
        return first

    def _may_be_more(self, tail: str) -> bool:
        """True for the beginning of a fence or a tag, and for blanks between blocks."""
        if self._middle:
            return False
        if not self.segments and _OPEN.startswith(tail.lstrip()[: len(_OPEN)]):
            return True
        return bool(_MAYBE_FENCE.match(tail)) or (not tail.strip() and self._kind() == "")

    def _pieces(self, line: str) -> int:
        """A whole line, in pieces where it is too long to be kept together."""
        first = len(self.segments)
        while len(line) > LONGEST_LINE + 1:
            first = min(first, self._line(line[:LONGEST_LINE]))
            line = line[LONGEST_LINE:]
        return min(first, self._line(line))

    def _line(self, line: str) -> int:
        """Put a line, or a piece of a long one, where it belongs; the first segment that changed."""
        at = max(0, len(self.segments) - 1)
        begins, self._middle = not self._middle, not line.endswith("\n")
        if begins and not self.segments and line.lstrip().startswith(_OPEN):
            self._thought = True
            self.segments.append(Segment("thinking"))
            line = line.lstrip()[len(_OPEN) :]
        if self._kind() == "thinking":
            self._thinking(line)
        elif not self._thought and (end := line.find(_CLOSE)) >= 0:
            # The template opened the thinking in the prompt: all so far was that.
            self._thought = True
            so_far = "".join(map(_as_written, self.segments)) + line[:end]
            self.segments[:] = [Segment("thinking", so_far)]
            self._fence = self._inner = ""
            self._answer(line[end + len(_CLOSE) :])
            return 0
        elif not (begins and self._took_fence(line)):
            if self._fence:
                self.segments[-1].text += _dedented(line, self._indent) if begins else line
            else:
                self._prose(line, begins)
        return at

    def _took_fence(self, line: str) -> bool:
        fence = _FENCE.match(line)
        if fence is None or self._inner:
            return False
        if self._fence:
            if not fence[2].startswith(self._fence) or fence[3].strip():
                return False
            self._fence = ""
            self._close()
            return True
        if fence[2][0] == "`" and "`" in fence[3]:
            return False
        self._close()
        self._fence, self._indent = fence[2], len(fence[1])
        self.segments.append(Segment("code", "", fence[3].strip()))
        return True

    def _prose(self, line: str, begins: bool) -> None:
        blank = not line.strip()
        if begins:
            if nested := _NESTED_FENCE.match(line):
                is_end = self._inner and nested[1].startswith(self._inner)
                self._inner = "" if is_end else self._inner or nested[1]
            length = len(self.segments[-1].text) if self._kind() else 0
            can = self._blank and not blank and not self._inner and not _GOES_ON.match(line)
            if (length > ENOUGH and can) or length > TOO_MUCH:
                self._close()
            self._blank = blank
        elif len(self.segments[-1].text) > TOO_MUCH:
            # One line without an end: no paragraph as large as that is ever laid out.
            self._close()
        if not self._kind():
            if blank:
                # Empty lines between blocks are the layout's business.
                return
            self.segments.append(Segment("prose"))
        self.segments[-1].text += line

    def _thinking(self, line: str) -> None:
        segment = self.segments[-1]
        # A line that was cut may have been cut inside the tag.
        whole = segment.text + line
        end = whole.find(_CLOSE, max(0, len(segment.text) - len(_CLOSE)))
        segment.text = whole if end < 0 else whole[:end]
        if end >= 0:
            self._answer(whole[end + len(_CLOSE) :])

    def _answer(self, rest: str) -> None:
        """What follows the thinking in its last line."""
        self._close()
        if rest.strip():
            self.segments.append(Segment("prose", rest.lstrip()))

    def _kind(self) -> str:
        return self.segments[-1].kind if self.segments and not self.segments[-1].closed else ""

    def _close(self) -> None:
        if self.segments:
            self.segments[-1].closed = True
        self._blank = False


def split(text: str) -> list[Segment]:
    """The segments of a whole text."""
    splitter = Splitter()
    splitter.feed(text)
    splitter.finish()
    return splitter.segments


def _as_written(segment: Segment) -> str:
    """A segment as Markdown again."""
    if segment.kind != "code":
        return segment.text
    return f"```{segment.language}\n{segment.text}" + ("```\n" if segment.closed else "")


def _dedented(line: str, indent: int) -> str:
    """A line of code without the blanks its fence was indented by."""
    lead = len(line) - len(line.lstrip(" "))
    return line[min(indent, lead) :]
