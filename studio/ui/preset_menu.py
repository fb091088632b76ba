"""What can be done with settings as a whole: keep, carry, copy; and the questions that asks."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QDialog, QFileDialog, QHBoxLayout, QMenu, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.entries import CalmLine
from studio.ui.icons import IconButton
from veloxquant_mlx.errors import VeloxQuantError

_KIND = "Preset (*.json)"


class NameDialog(QDialog):
    """Asks for a name. ``check`` gives the tidy name, or raises VeloxQuantError, which is said at once."""

    def __init__(self, parent: QWidget, title: str, name: str, check: Callable[[str], str]) -> None:
        super().__init__(parent)
        self._check = check
        self.name = ""
        self.setWindowTitle(title)
        self.setMinimumWidth(round(360 * parts.text_scale()))
        self.line = CalmLine(name)
        self.line.setAccessibleName("Name of the preset")
        self.line.selectAll()
        self.why = parts.Words("bad", 2)
        self.save = parts.button("Save", "primary")
        self.save.setDefault(True)
        cancel = parts.button("Cancel")
        column = QVBoxLayout(self)
        parts.margins(column, 20, 20, 20, 16, 8)
        column.addWidget(parts.label(title, "title"))
        column.addWidget(self.line)
        column.addWidget(self.why)
        row = QHBoxLayout()
        parts.margins(row, 0, 4, 0, 0, 8)
        row.addStretch(1)
        row.addWidget(cancel)
        row.addWidget(self.save)
        column.addLayout(row)
        self.line.textChanged.connect(self._look)
        cancel.clicked.connect(self.reject)
        self.save.clicked.connect(self.accept)
        self._look()

    def _look(self) -> None:
        try:
            self.name, why = self._check(self.line.text()), ""
        except VeloxQuantError as error:
            why = str(error)
        # An empty line needs no reproach.
        self.why.setText(why if self.line.text().strip() else "")
        self.save.setEnabled(not why)


def ask_name(parent: QWidget, title: str, name: str, check: Callable[[str], str]) -> str | None:
    """A name that ``check`` takes, or None when the person thought better of it."""
    dialog = NameDialog(parent, title, name, check)
    accepted = dialog.exec() == QDialog.DialogCode.Accepted.value
    dialog.deleteLater()
    return dialog.name if accepted else None


def ask_imports(parent: QWidget) -> list[Path]:
    """Files to import."""
    paths, _ = QFileDialog.getOpenFileNames(parent, "Import presets", str(Path.home()), _KIND)
    return [Path(path) for path in paths]


def ask_export_to(parent: QWidget, name: str) -> Path | None:
    """Where a preset goes."""
    stem = "".join(c if c.isalnum() or c in "-_ " else "-" for c in name).strip() or "preset"
    path, _ = QFileDialog.getSaveFileName(parent, "Export preset", str(Path.home() / f"{stem}.json"), _KIND)
    return Path(path) if path else None


class PresetMenu(IconButton):
    """The three dots: every action has its words, those with keys work in the whole panel."""

    def __init__(self, panel: QWidget) -> None:
        super().__init__("more", "More about these settings")
        self._panel = panel
        self.setPopupMode(IconButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        self.undo = self._add(menu, "Undo", "Take the last change back", QKeySequence.StandardKey.Undo)
        self.redo = self._add(menu, "Redo", "Change it again", QKeySequence.StandardKey.Redo)
        self.reset = self._add(menu, "Reset", "Back to the preset that was chosen last")
        menu.addSeparator()
        self.save = self._add(menu, "Save as preset…", "Keep these settings under a name of your own")
        self.rename = self._add(menu, "Rename preset…", "Give your preset another name")
        self.delete = self._add(menu, "Delete preset", "Forget your preset; Undo brings it back")
        menu.addSeparator()
        self.import_ = self._add(menu, "Import presets…", "Add presets from JSON files")
        self.export = self._add(menu, "Export preset…", "Save these settings as a small JSON file for others")
        menu.addSeparator()
        self.smallest = self._add(
            menu, "Find the smallest setting…",
            "Search presets and bit widths on this conversation for the fewest bytes under a KL",
        )  # fmt: skip
        menu.addSeparator()
        self.python = self._add(menu, "Copy as Python", "The lines that make this cache in your own code")
        self.command = self._add(menu, "Copy as command", "A command that answers through this cache")
        menu.addSeparator()
        self.at_once = self._add(
            menu, "Apply on release",
            "Read the conversation again as soon as a control is let go; without it, Apply does",
        )  # fmt: skip
        self.at_once.setCheckable(True)
        self.at_once.setChecked(True)
        self.setMenu(menu)

    def _add(self, menu: QMenu, text: str, tip: str, keys: QKeySequence.StandardKey | None = None) -> QAction:
        action = QAction(text, self._panel)
        action.setToolTip(tip)
        if keys is not None:
            action.setShortcuts(keys)
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            self._panel.addAction(action)
        menu.addAction(action)
        return action
