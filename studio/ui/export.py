"""Asking what goes into a report, in which form, and where it is saved."""

from datetime import datetime
from pathlib import Path

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QComboBox, QDialog, QFileDialog, QHBoxLayout, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.controls import Switch

FORMS = {
    "html": ("Page (HTML)", "One page with charts for a browser, light and dark. It needs no network."),
    "pdf": ("Pages (PDF)", "The same for paper, charts as lines."),
    "md": ("Text (Markdown)", "The figures without charts, for notes and issues."),
    "json": ("Report (JSON)", "Everything, exactly. This app opens it again and compares it with another."),
    "csv": ("Table (CSV)", "One row per token and slot: bytes by kind and the method's gauges."),
}
"""Ending -> its name, and what it is good for."""
PRIVATE = "Prompts stay on this machine: nothing is sent, and without this switch no word of yours is saved."


class ExportDialog(QDialog):
    """The form of a report, and whether the words of the conversation are in it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export report")
        self.setMinimumWidth(440)
        self._column = column = QVBoxLayout(self)
        parts.margins(column, 20, 20, 20, 16, 12)
        column.addWidget(parts.label("Export report", "title"))
        column.addWidget(
            parts.label(
                "The model, the machine, every setting and its meaning, the bytes of each slot by kind "
                "(counted and measured), speeds, peaks, fidelity and the history.",
                "lead",
                wrap=True,
            )
        )
        self.form = QComboBox()
        self.form.setAccessibleName("Form")
        for ending, (name, _) in FORMS.items():
            self.form.addItem(name, ending)
        self.good_for = parts.label("", "small", wrap=True)
        column.addWidget(self.form)
        column.addWidget(self.good_for)
        self.transcript = Switch("With the transcript of this conversation")
        self.transcript.setToolTip("Adds your messages and the replies. Leave off to share figures only.")
        self.transcript.setAccessibleDescription(self.transcript.toolTip())
        column.addWidget(self.transcript)
        self.private = parts.label(PRIVATE, "small", wrap=True)
        column.addWidget(self.private)
        row = QHBoxLayout()
        parts.margins(row, 0, 8, 0, 0, 8)
        row.addStretch(1)
        self.cancel, self.save = parts.button("Cancel"), parts.button("Choose where to save…", "primary")
        self.save.setDefault(True)
        self.cancel.clicked.connect(self.reject)
        self.save.clicked.connect(self.accept)
        row.addWidget(self.cancel)
        row.addWidget(self.save)
        column.addLayout(row)
        self.form.currentIndexChanged.connect(lambda _: self._say())
        self._say()

    def ending(self) -> str:
        """Of the form chosen, without a dot."""
        return str(self.form.currentData())

    def with_transcript(self) -> bool:
        """A table has no words whatever the switch says."""
        return self.transcript.isChecked() and self.transcript.isEnabled()

    def showEvent(self, event: QShowEvent) -> None:
        """Only now the words have the fonts they are shown in."""
        super().showEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """A dialog does not grow with lines of words by itself."""
        self._column.invalidate()
        self.setMinimumHeight(max(0, self._column.totalHeightForWidth(self.width())))

    def _say(self) -> None:
        self.good_for.setText(FORMS[self.ending()][1])
        self._make_room()
        self.transcript.setEnabled(self.ending() != "csv")


def ask_export(parent: QWidget, model: str) -> tuple[str, bool] | None:
    """Path and whether the transcript goes along, or None when the person thought better of it."""
    dialog = ExportDialog(parent)
    accepted = dialog.exec() == QDialog.DialogCode.Accepted.value
    with_transcript, ending = dialog.with_transcript(), dialog.ending()
    dialog.deleteLater()
    path = ask_path(parent, model, ending) if accepted else ""
    return (path, with_transcript) if path else None


def ask_path(parent: QWidget, name: str, ending: str) -> str:
    """Where a file of one of the FORMS is to be; '' for nowhere."""
    stem = "".join(c if c.isalnum() or c in "-._" else "-" for c in name) or "report"
    proposed = str(Path.home() / f"{stem}-{datetime.now():%Y%m%d-%H%M}.{ending}")
    path, _ = QFileDialog.getSaveFileName(
        parent, "Save report", proposed, f"{FORMS[ending][0].partition(' (')[0]} (*.{ending})"
    )
    # Some systems leave the ending to the person; it is what decides over the form.
    return path if not path or Path(path).suffix.lower() == f".{ending}" else f"{path}.{ending}"
