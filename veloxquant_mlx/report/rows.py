"""A report as a table: one row per token and slot, worked out from the straight lines the history keeps."""

import csv
import io
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import VeloxQuantError
from ..telemetry import BYTE_KINDS

_FIXED = {
    "tokens": "tokens_held_counted",
    **{kind: f"{kind}_bytes_counted" for kind in BYTE_KINDS},
    "resident": "resident_bytes_measured",
    "reference": "bytes_at_16_bits_counted",
}
"""Figure of every slot -> its column."""


def slot_rows(report: Mapping[str, Any]) -> Iterator[dict[str, float | int | None]]:
    """One row per slot and row of the history, tokens rising; gauges follow the bytes. None is unknown.

    Raises VeloxQuantError when the report has no history of slots.
    """
    told = report.get("slot_history")
    if told is None:
        raise VeloxQuantError("This report keeps no history per slot, so there is no table to write.")
    eras, gaps = told["eras"], told["gaps"]
    begins = [era["from"] for era in eras]
    for tokens in report["history"]["tokens"]:
        place = bisect_right(begins, tokens) - 1
        if place < 0 or any(first <= tokens < end for first, end in gaps):
            continue
        era = eras[place]
        at = {column: _at(lines, tokens) for column, lines in _columns(era)}
        for index, slot in enumerate(era["slots"]):
            row: dict[str, float | int | None] = {"tokens": tokens, "slot": slot}
            row["replaced"] = int(era["replaced"][index])
            yield row | {column: values[index] for column, values in at.items()}


def csv_text(report: Mapping[str, Any]) -> str:
    """The rows as CSV with a head; unknown is an empty cell. Raises as ``slot_rows``."""
    eras = (report.get("slot_history") or {"eras": []})["eras"]
    figures = dict.fromkeys(column for era in eras for column, _ in _columns(era))
    columns = ["tokens", "slot", "replaced", *figures]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(slot_rows(report))
    return out.getvalue()


def _columns(era: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Column and lines of every figure. A gauge may be called like a kind of bytes."""
    yield from ((_FIXED.get(name, name), lines) for name, lines in era["figures"].items())
    yield from ((f"gauge_{name}", lines) for name, lines in era["gauges"].items())


def _at(figure: Mapping[str, Any], tokens: int) -> list[float | int | None]:
    """Values of one figure over the slots."""
    place = bisect_right(figure["starts"], tokens) - 1
    ahead = tokens - figure["starts"][place]
    lines = zip(figure["values"][place], figure["per_token"][place], strict=True)
    return [None if base is None else _whole(base + (slope or 0) * ahead) for base, slope in lines]


def _whole(value: float) -> float | int:
    """Bytes are whole: the lines between two of them are not."""
    near = round(value)
    return near if abs(value - near) < 1e-6 * max(1.0, abs(value)) else value
