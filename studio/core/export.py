"""The session's memory report on disk, in the form that the file's name asks for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from veloxquant_mlx.config import methods
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.planning import MemoryPlan, plan_record, plan_rows, this_machine
from veloxquant_mlx.report.content import document
from veloxquant_mlx.report.document import Document
from veloxquant_mlx.report.render import html, markdown
from veloxquant_mlx.report.rows import csv_text
from veloxquant_mlx.report.schema import validate_report
from veloxquant_mlx.saving import save

from .report import build_report, write_report
from .session import Message, Session
from .taken import Taken, spoken

Printer = Callable[[Document], bytes]
"""Makes PDF of a document; what draws pages is no affair of this package."""


def export_report(
    session: Session, path: Path, taken: Taken, *, with_transcript: bool, printer: Printer | None = None
) -> None:
    """Write the report of the conversation as it was ``taken``, atomically.

    Args:
        path: its ending chooses HTML, PDF, Markdown, CSV, or else JSON. with_transcript: put the messages in.

    Raises VeloxQuantError in one sentence; a file already at ``path`` stays as it was then.
    """
    if session.model is None:
        raise VeloxQuantError("There is nothing to export yet: load a model and send a message first.")
    said = spoken(session.messages) if taken.said is None else taken.said
    report = build_report(
        model=session.model.info,
        compute=session.model.compute,
        plan=session.plan(),
        config=session.config,
        history=taken.columns,
        snapshot=taken.snapshot or session.snapshot(),
        speeds=session.finished,
        conversation=[Message(role, text) for role, text in said] if with_transcript else None,  # type: ignore[arg-type]
        device=str(mx.default_device()),
        reference=session.reference,
        prediction=_prediction(session, session.model),
        fidelity=taken.fidelity,
        slot_history=taken.slot_history,
    )
    if path.suffix.lower() in FORMS:
        validate_report(report)
        save("The report", path, FORMS[path.suffix.lower()](report).encode("utf-8"))
    elif path.suffix.lower() == ".pdf" and printer is not None:
        validate_report(report)
        save("The report", path, printer(document(report)))
    else:
        write_report(path, report)


FORMS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    ".html": lambda report: html(document(report)),
    ".md": lambda report: markdown(document(report)),
    ".csv": csv_text,
}
"""Ending -> the text of a report in that form."""


def _prediction(session: Session, loaded: LoadedModel) -> dict[str, Any]:
    weights = sum(array.nbytes for _, array in tree_flatten(loaded.model.parameters()))
    plan = MemoryPlan.of(loaded.info, this_machine(), loaded=weights)
    return plan_record(plan, plan_rows(plan, methods(), session.config), session.config, plan.horizon)
