"""Where one answer says something else than another, word by word."""

import re
from difflib import SequenceMatcher

_WORD = re.compile(r"\w+|[^\w\s]")


def differences(first: str, other: str) -> list[tuple[int, int]]:
    """Stretches of ``other``, (begin, end) in characters, that ``first`` has not at that place."""
    ours = [match.group() for match in _WORD.finditer(first)]
    theirs = list(_WORD.finditer(other))
    matcher = SequenceMatcher(None, ours, [match.group() for match in theirs], autojunk=False)
    return [
        (theirs[begin].start(), theirs[end - 1].end())
        for how, _, _, begin, end in matcher.get_opcodes()
        if how != "equal" and begin < end
    ]
