"""A document as one HTML page, as Markdown, or as simple HTML for a printer. Everything is escaped."""

import re
from collections.abc import Iterator
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from .document import Chart, Document
from .ink import KIND_COLOURS, SURFACES, colours, standing_alone
from .words import clean

_LINES = ("reference", "text", "line", "accent", "codes", "sinks")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$-])")


def html(document: Document) -> str:
    """One page that needs no other file, no network and no script; light or dark as the reader's system."""
    return _environment().get_template("report.html").render(
        doc=document, colours={**KIND_COLOURS, **SURFACES}, kinds=tuple(KIND_COLOURS), lines=_LINES
    )  # fmt: skip


def markdown(document: Document) -> str:
    """The same without drawings; what a person or a model wrote stands in fences."""
    text = _environment().get_template("report.md").render(doc=document)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def printed(document: Document, width: int, *, light: bool = True) -> tuple[str, list[Chart]]:
    """HTML that Qt's text documents know, and the charts it names ``chart:0``, ``chart:1``, in order.

    Args:
        width: of a drawing, in the units of the page. light: dark words on a light page.
    """
    items = charts_of(document)
    names = {item: index for index, item in enumerate(items)}
    text = _environment().get_template("print.html").render(
        doc=document, charts=names, width=width, c=colours(light=light)
    )  # fmt: skip
    return text, items


def charts_of(document: Document) -> list[Chart]:
    """Every chart in order."""
    return [item for section in document.sections for item in section.items if isinstance(item, Chart)]


def chart_files(document: Document) -> Iterator[tuple[str, str]]:
    """Every chart as an SVG that stands alone, on white, after the stem of a file's name for it."""
    for number, chart in enumerate(charts_of(document), start=1):
        letters = "".join(c if c.isalnum() else " " for c in chart.title.lower())
        yield f"{number:02}-{'-'.join(letters.split())[:60]}", standing_alone(chart.svg, light=True)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_finalized,
        keep_trailing_newline=False,
    )
    # Charts escape their own words.
    made.filters["drawing"] = Markup
    made.filters["inline"] = _inline
    made.filters["cell"] = _inline
    made.filters["fenced"] = _fenced
    return made


def _finalized(value: object) -> object:
    """Words of whoever wrote them, without what could not be seen."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _inline(text: str) -> str:
    """Words that Markdown shows as they are, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _fenced(text: str) -> str:
    """Text in a fence longer than any run of fence characters in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
