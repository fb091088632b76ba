"""What a report holds, checked; and reading one from its file."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ..errors import VeloxQuantError

FORMAT, VERSION = "veloxquant-memory-report", 1
_LARGEST = 256 << 20
"""Bytes of a file that is still looked into."""


def read_report(path: Path) -> dict[str, Any]:
    """The report in a file, checked. Raises VeloxQuantError in one sentence."""
    try:
        if path.stat().st_size > _LARGEST:
            raise VeloxQuantError(f"{path.name} is too large for a report: choose another file.")
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise VeloxQuantError(f"{path.name} can't be read ({reason}): choose another file.") from error
    except (ValueError, RecursionError) as error:
        raise VeloxQuantError(f"{path.name} is no report in JSON: choose another file.") from error
    said = report.get("report") if isinstance(report, dict) else None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise VeloxQuantError(f"{path.name} is no report of VeloxQuant Studio: choose another file.")
    if said.get("version") != VERSION:
        raise VeloxQuantError(f"{path.name} was written by a newer version of the app: update this one.")
    validate_report(report)
    return report


def validate_report(report: Mapping[str, Any]) -> None:
    """Raise VeloxQuantError, naming what is missing or wrong, unless the report is whole."""
    error = best_match(_validator().iter_errors(report))
    if error is not None:
        place = ".".join(map(str, error.absolute_path)) or "its top level"
        raise VeloxQuantError(f"The report is not complete: at {place}, {error.message[:200]}.")
    _validate_history(report["history"])
    if len(report["slots"]) not in (0, report["plan"]["total_slots"]):
        raise VeloxQuantError("The report is not complete: the plan and the slots differ in number.")


def _validate_history(history: Mapping[str, list[Any]]) -> None:
    """What the schema leaves out: it would take seconds over the rows of a long conversation."""
    rows = len(history["tokens"])
    for name, column in history.items():
        if len(column) != rows:
            raise VeloxQuantError(
                f"The report is not complete: history.{name} has not a row per token count."
            )
        unknown = name == "frontier"
        if not all((type(v) in (int, float) and v >= 0) or (unknown and v is None) for v in column):
            raise VeloxQuantError(f"The report is not complete: history.{name} has a row without a figure.")


@cache
def _validator() -> Draft202012Validator:
    text = files(__package__).joinpath("report.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))
