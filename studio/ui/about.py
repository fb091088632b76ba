"""About this app: its version and those it depends on, what it sends (nothing), and everyone's licences."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QListWidget, QPlainTextEdit, QVBoxLayout, QWidget

from studio.core.components import Component, components
from studio.core.surroundings import machine, versions
from studio.ui import parts
from studio.ui.dialogs import closing_row, dialog_size
from studio.ui.empty import Mark

WHAT = "Shows what a KV-cache setting does to a local model's memory and to its answers."
PRIVACY = (
    "Nothing leaves this computer: the app sends no reports, no statistics and no questions to anyone, and "
    "looks for no updates. It uses the network only to download a model that you ask for."
)
NAMES = {"python": "Python", "mlx": "MLX", "mlx-lm": "mlx-lm", "PySide6": "PySide6"}
NO_TEXT = "Its makers did not put the text of the licence into what is installed here."


class AboutDialog(QDialog):
    """Opens at once; the components are listed a moment later."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About VeloxQuant Studio")
        known = versions()
        words = QVBoxLayout()
        parts.margins(words, 0, 0, 0, 0, 4)
        words.addWidget(parts.label("VeloxQuant Studio", "title"))
        self.version = parts.label(f"Version {known['veloxquant-studio'] or 'unknown'}", "strong")
        self.below = parts.label(
            ", ".join(f"{said} {known[name] or 'unknown'}" for name, said in NAMES.items()),
            "small",
            wrap=True,
        )
        for line in (self.version, self.below):
            line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self.version, parts.label(WHAT, "", wrap=True), self.below):
            words.addWidget(label)
        top = QHBoxLayout()
        parts.margins(top, 0, 0, 0, 0, 16)
        top.addWidget(Mark(72), 0, Qt.AlignmentFlag.AlignTop)
        top.addLayout(words, 1)

        self.list = QListWidget()
        self.list.setAccessibleName("Components")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Licence")
        self.licence = parts.label("", "small", wrap=True)
        right = QVBoxLayout()
        parts.margins(right, 0, 0, 0, 0, 6)
        right.addWidget(self.licence)
        right.addWidget(self.text, 1)
        both = QHBoxLayout()
        parts.margins(both, 0, 0, 0, 0, 10)
        both.addWidget(self.list, 2)
        both.addLayout(right, 5)

        copy = parts.button(
            "Copy versions", "", "Copy versions and machine, as a report of a fault needs them"
        )
        copy.clicked.connect(self._copy)
        column = QVBoxLayout(self)
        parts.margins(column, 20, 18, 20, 14, 12)
        column.addLayout(top)
        column.addWidget(parts.label(PRIVACY, "muted", wrap=True))
        self.heading = parts.label("Made of, with their licences", "heading")
        column.addWidget(self.heading)
        column.addLayout(both, 1)
        column.addLayout(closing_row(self, copy))
        self.resize(dialog_size(720, 560))
        self._components: list[Component] = []
        self.list.currentRowChanged.connect(self._show)
        QTimer.singleShot(0, self, self._fill)

    def _fill(self) -> None:
        self._components = components()
        self.heading.setText(f"Made of {len(self._components)} components, with their licences")
        self.list.addItems([f"{one.name} {one.version}".strip() for one in self._components])
        self.list.setCurrentRow(0)

    def _show(self, row: int) -> None:
        if 0 <= row < len(self._components):
            shown = self._components[row]
            self.licence.setText(f"{shown.name} {shown.version}: {shown.licence or 'licence as below'}")
            self.text.setPlainText(shown.text or NO_TEXT)

    def _copy(self) -> None:
        facts = versions() | machine()
        QGuiApplication.clipboard().setText("\n".join(f"{key}: {value}" for key, value in facts.items()))
