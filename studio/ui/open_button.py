"""The ways to a model that is not in the list: a folder, a GGUF file, a download."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QVBoxLayout,
    QWidget,
)

from studio.ui import parts
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.hub import repository_of


class OpenButton(QWidget):
    """Asks which of them, then for the path or the name; also looks for models once more."""

    folder_chosen = Signal(str)
    file_chosen = Signal(str)
    download_chosen = Signal(str)
    """Name of a repository."""
    look_chosen = Signal()

    def __init__(self) -> None:
        super().__init__()
        tip = "Open a model that is not in the list, or download one"
        self.button = parts.button("Add…", "link", tip, "Add a model")
        menu = QMenu(self)
        menu.addAction("Open model folder…").triggered.connect(self.ask_folder)
        menu.addAction("Open GGUF file…").triggered.connect(self.ask_file)
        menu.addAction("Download…").triggered.connect(self.ask_download)
        menu.addSeparator()
        menu.addAction("Look again on this computer").triggered.connect(self.look_chosen)
        self.button.clicked.connect(
            lambda: menu.exec(self.button.mapToGlobal(self.button.rect().bottomLeft()))
        )
        row = QHBoxLayout(self)
        parts.margins(row, 0, 0, 0, 0, 0)
        row.addWidget(self.button)

    def ask_folder(self) -> None:
        """A folder with config.json, safetensors and tokenizer files."""
        path = QFileDialog.getExistingDirectory(self.window(), "Open a model folder", str(Path.home()))
        if path:
            self.folder_chosen.emit(path)

    def ask_file(self) -> None:
        """A .gguf file, converted once."""
        path, _ = QFileDialog.getOpenFileName(
            self.window(), "Open a GGUF file", str(Path.home()), "GGUF models (*.gguf)"
        )
        if path:
            self.file_chosen.emit(path)

    def ask_download(self) -> None:
        """A repository of the Hugging Face Hub."""
        dialog = DownloadDialog(self.window())
        if dialog.exec() == QDialog.DialogCode.Accepted:
            self.download_chosen.emit(dialog.name.text())


class DownloadDialog(QDialog):
    """Asks for the name of a repository, and says what will be fetched."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Download a model")
        self.name = QLineEdit()
        self.name.setProperty("role", "search")
        self.name.setPlaceholderText("owner/name")
        self.name.setAccessibleName("Repository on the Hugging Face Hub")
        self.name.setMinimumWidth(round(360 * min(1.4, parts.text_scale())))
        about = parts.label(
            "Weights in safetensors, configuration and tokenizer are fetched, code is not. Each file is "
            "checked. You can pause, and go on later.",
            "small", wrap=True,
        )  # fmt: skip
        self.wrong = parts.label("", "small", wrap=True)
        self.go = parts.button("Download", "primary")
        self.go.setDefault(True)
        cancel = parts.button("Cancel")
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 8)
        row.addStretch(1)
        row.addWidget(cancel)
        row.addWidget(self.go)
        column = QVBoxLayout(self)
        parts.margins(column, 16, 14, 16, 14, 10)
        column.addWidget(parts.label("Repository on the Hugging Face Hub, or the address of its page"))
        column.addWidget(self.name)
        column.addWidget(self.wrong)
        column.addWidget(about)
        column.addLayout(row)
        self.go.clicked.connect(self.accept)
        cancel.clicked.connect(self.reject)
        self.name.textChanged.connect(lambda _: self._check())
        self._check()

    def _check(self) -> None:
        sentence = ""
        try:
            repository_of(self.name.text())
        except VeloxQuantError as error:
            sentence = str(error)
        self.go.setEnabled(not sentence)
        self.wrong.setText(sentence if self.name.text().strip() else "")
        self.wrong.setVisible(bool(self.wrong.text()))
