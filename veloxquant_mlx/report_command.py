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
    parser.add_argument(
        "--charts", type=Path, metavar="FOLDER",
        help="every chart as an SVG of its own, and as a PNG where the studio is installed, which draws it",
    )  # fmt: skip
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
    if options.pdf is not None and options.pdf.is_dir():
        raise VeloxQuantError(f"{options.pdf} is a folder: name a file in it for the PDF.")
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
        written += (drawn := _draw(made, options.charts))
        if _has_studio():
            _print(options.report, options.compare, options.charts)
            written += [path.with_suffix(".png") for path in drawn]
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
    """Every chart as a file that stands alone."""
    from .report.render import chart_files

    written = []
    for stem, svg in chart_files(made):
        path = folder / f"{stem}.svg"
        save("The chart", path, svg.encode("utf-8"))
        written.append(path)
    return written


def _has_studio() -> bool:
    return importlib.util.find_spec("studio") is not None


def _print(report: Path, other: Path | None, target: Path) -> None:
    """Let the studio, as a program of its own, draw the pages, or every chart as PNG where ``target`` is a
    folder: only it knows fonts, paper and pixels."""
    if not _has_studio():
        raise VeloxQuantError(
            "PDF needs VeloxQuant Studio, which is not installed here: write --html instead."
        )
    inputs = [str(report), *([] if other is None else [str(other)])]
    command = [sys.executable, "-m", "studio", "--print-report", *inputs, str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VeloxQuantError("The studio could not draw it: write --html instead.") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise VeloxQuantError(said[-1] if said else "The studio could not draw it: write --html instead.")
