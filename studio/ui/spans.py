"""Where the characters a model wrote are found again in what is shown of them."""

import re
from bisect import bisect_left
from collections.abc import Sequence

_WORD = re.compile(r"\w+|[^\w\s]")
_AHEAD = 400
"""Words of the text looked through for one that is shown: more than any address that is not shown has."""


def aligned(text: str, shown: str) -> tuple[list[int], list[int]]:
    """Places in ``text``, rising, and the places in ``shown`` of the same characters.

    Rendering Markdown takes marks and addresses away and hardly adds anything, so that what is shown is found
    word by word, in order. Blanks are in neither list.
    """
    words = [(match.start(), match.group()) for match in _WORD.finditer(text)]
    places: list[int] = []
    found: list[int] = []
    at = 0
    for match in _WORD.finditer(shown):
        near = range(at, min(len(words), at + _AHEAD))
        hit = next((n for n in near if words[n][1] == match.group()), None)
        if hit is not None:
            places += range(words[hit][0], words[hit][0] + len(match.group()))
            found += range(match.start(), match.end())
            at = hit + 1
    return places, found


def shown_spans(text: str, shown: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int] | None]:
    """For every (begin, end) of ``text`` the same in ``shown`` as Qt counts, or None where nothing is seen.

    Qt counts in UTF-16: what lies beyond its first plane is two places.
    """
    places, found = aligned(text, shown)
    wide = wide_places(shown)
    made: list[tuple[int, int] | None] = []
    for begin, end in spans:
        first, last = bisect_left(places, begin), bisect_left(places, end)
        made.append((wide[found[first]], wide[found[last - 1] + 1]) if first < last else None)
    return made


def wide_places(text: str) -> list[int]:
    """Where Qt has every character of a text, and its end."""
    wide = [0]
    for letter in text:
        wide.append(wide[-1] + (2 if ord(letter) > 0xFFFF else 1))
    return wide
