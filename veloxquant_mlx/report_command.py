"""``veloxquant report``: a saved report as a page, as Markdown, as a table or on paper."""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import VeloxQuantError
from .saving import save

if TYPE_CHECKING:
    from .report.document import Document

_SECONDS = 120
"""Most that the program which prints may take."""


def add_report(commands: Any, common: argparse.ArgumentParser) -> None:
    """Hook the command into the parser's ``commands``."""
    parser = commands.add_parser(
        "report", parents=[common], help="turn a saved report into HTML, Markdown, CSV or PDF",
        description="Read a report that the studio saved as JSON and write it in other forms. Without any it "
        "is printed as Markdown.",
    )  # fmt: skip
    parser.add_argument("report", type=Path, metavar="RUN.json")
    parser.add_argument("--compare", type=Path, metavar="OTHER.json", help="set another report beside it")
    parser.add_argument("--html", type=Path, metavar="FILE", help="one page that needs no other file")
    parser.add_argument("--md", type=Path, metavar="FILE", help="Markdown")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="a table, one row per token and slot")
    parser.add_argument("--pdf", type=Path, metavar="FILE", help="pages for a printer, drawn by the studio")
    parser.add_argument("--charts", type=Path, metavar="FOLDER", help="every chart as an SVG of its own")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read, check, and write what was asked for."""
    from .report.compare import comparison
    from .report.content import document
    from .report.render import html, markdown
    from .report.rows import csv_text
    from .report.schema import read_report

    if options.compare is not None and options.csv is not None:
        raise VeloxQuantError("A comparison has no table of tokens: leave --csv or --compare out.")
    report = read_report(options.report)
    other = None if options.compare is None else read_report(options.compare)
    made = document(report) if other is None else comparison(report, other)
    written: list[Path] = []
    for path, text in (
        (options.html, lambda: html(made)),
        (options.md, lambda: markdown(made)),
        (options.csv, lambda: csv_text(report)),
    ):
        if path is not None:
            save("The report", path, text().encode("utf-8"))
            written.append(path)
    if options.charts is not None:
        written += _draw(made, options.charts)
    if options.pdf is not None:
        _print(options.report, options.compare, options.pdf)
        written.append(options.pdf)
    if options.json:
        print(json.dumps({"written": [str(path) for path in written]}))
    elif written:
        print("\n".join(f"Written to {path}" for path in written))
    else:
        print(markdown(made), end="")
    return 0


def _draw(made: "Document", folder: Path) -> list[Path]:
    """Every chart as a file that stands alone, on white."""
    from .report.ink import standing_alone
    from .report.render import charts_of

    written = []
    for number, chart in enumerate(charts_of(made), start=1):
        stem = "-".join("".join(c if c.isalnum() else " " for c in chart.title.lower()).split())[:60]
        path = folder / f"{number:02}-{stem}.svg"
        save("The chart", path, standing_alone(chart.svg, light=True).encode("utf-8"))
        written.append(path)
    return written


def _print(report: Path, other: Path | None, target: Path) -> None:
    """Let the studio, as a program of its own, draw the pages: only it knows fonts and paper."""
    if importlib.util.find_spec("studio") is None:
        raise VeloxQuantError(
            "PDF needs VeloxQuant Studio, which is not installed here: write --html instead."
        )
    inputs = [str(report), *([] if other is None else [str(other)])]
    command = [sys.executable, "-m", "studio", "--print-report", *inputs, str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VeloxQuantError("The studio could not draw the pages: write --html instead.") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise VeloxQuantError(
            said[-1] if said else "The studio could not draw the pages: write --html instead."
        )
