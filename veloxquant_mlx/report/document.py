"""What a report is made of once it is to be read: sections of facts, tables, charts and words."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure with its name."""

    label: str
    value: str
    how: str = ""
    """counted, measured or predicted, where it is a figure."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Figures side by side."""

    facts: tuple[Fact, ...]
    kind: str = "facts"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words; ``right`` are the columns of numbers, ``total`` marks a closing line of sums."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    total: bool = False
    kind: str = "table"

    @classmethod
    def of(
        cls,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[int] = (),
        *,
        total: bool = False,
    ) -> "Table":
        """From any sequences."""
        return cls(tuple(head), tuple(tuple(row) for row in rows), frozenset(right), total)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, and the same in words for who can't see it."""

    title: str
    svg: str = field(repr=False)
    """One ``<svg>`` element whose colours are classes; see ``charts``."""
    words: str
    kind: str = "chart"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Words."""

    text: str
    kind: str = "paragraph"


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the conversation, as it was written."""

    role: str
    text: str
    kind: str = "said"


Item = Facts | Table | Chart | Paragraph | Said


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report, or a comparison of two."""

    title: str
    lead: str
    facts: Facts
    sections: tuple[Section, ...]
    closing: str
