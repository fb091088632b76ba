"""Asking what goes into a report and where it is saved."""

from datetime import datetime
from pathlib import Path

from PySide6.QtWidgets import QDialog, QFileDialog, QHBoxLayout, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.controls import Switch


class ExportDialog(QDialog):
    """What is in a report, and whether the words of the conversation are."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export report")
        self.setMinimumWidth(420)
        column = QVBoxLayout(self)
        parts.margins(column, 20, 20, 20, 16, 12)
        column.addWidget(parts.label("Export report", "title"))
        column.addWidget(
            parts.label(
                "A JSON file with the model, the machine, every setting, the bytes of each slot by kind "
                "(counted and measured), token counts and speeds.",
                "lead",
                wrap=True,
            )
        )
        self.transcript = Switch("With the transcript of this conversation")
        self.transcript.setToolTip("Adds your messages and the replies. Leave off to share figures only.")
        self.transcript.setAccessibleDescription(self.transcript.toolTip())
        column.addWidget(self.transcript)
        row = QHBoxLayout()
        parts.margins(row, 0, 8, 0, 0, 8)
        row.addStretch(1)
        cancel, save = parts.button("Cancel"), parts.button("Choose where to save…", "primary")
        save.setDefault(True)
        cancel.clicked.connect(self.reject)
        save.clicked.connect(self.accept)
        row.addWidget(cancel)
        row.addWidget(save)
        column.addLayout(row)


def ask_export(parent: QWidget, model: str) -> tuple[str, bool] | None:
    """Path and whether the transcript goes along, or None when the person thought better of it."""
    dialog = ExportDialog(parent)
    accepted = dialog.exec() == QDialog.DialogCode.Accepted.value
    with_transcript = dialog.transcript.isChecked()
    dialog.deleteLater()
    if not accepted:
        return None
    stem = "".join(c if c.isalnum() or c in "-._" else "-" for c in model) or "report"
    name = f"{stem}-{datetime.now():%Y%m%d-%H%M}.json"
    path, _ = QFileDialog.getSaveFileName(
        parent, "Save report", str(Path.home() / name), "JSON report (*.json)"
    )
    return (path, with_transcript) if path else None
