"""The session's memory report on disk."""

from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np

from veloxquant_mlx.errors import VeloxQuantError

from .report import build_report, write_report
from .session import Session


def export_report(
    session: Session, path: Path, history: Mapping[str, np.ndarray], *, with_transcript: bool
) -> None:
    """Write the report of the conversation as it stands, atomically.

    Args:
        history: copied columns of a History. with_transcript: put the messages in.

    Raises VeloxQuantError in one sentence; a report already at ``path`` stays as it was then.
    """
    if session.model is None:
        raise VeloxQuantError("There is nothing to export yet: load a model and send a message first.")
    report = build_report(
        model=session.model.info,
        compute=session.model.compute,
        plan=session.plan(),
        config=session.config,
        history=history,
        snapshot=session.snapshot(),
        speeds=session.finished,
        conversation=session.messages if with_transcript else None,
        device=str(mx.default_device()),
    )
    write_report(path, report)
