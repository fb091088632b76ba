"""The models on this computer, the starter model first, and the ways to load, open and unload one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from studio.ui import parts, words
from studio.ui.errors import Notice
from studio.ui.model_row import ROW, RowDelegate, RowText, row_text

STARTER = "SmolLM2-135M-Instruct"
GET_STARTER = "Get the starter model, 93 MB"
OFFER = "Not here yet. A small one to begin with: 93 MB to fetch."
_PATH = Qt.ItemDataRole.UserRole + 1


class _List(QListWidget):
    """A list whose rows wrap anew when the panel is resized."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Heights depend on the width."""
        super().resizeEvent(event)
        self.scheduleDelayedItemsLayout()

    def minimumSizeHint(self) -> QSize:
        """Two rows at least; the rest scrolls."""
        return QSize(120, 96)


class ModelsPanel(QFrame):
    """Commands leave as signals with a path as text; the engine answers through the set_ methods."""

    load_requested = Signal(str)
    starter_requested = Signal()
    import_requested = Signal(str)
    unload_requested = Signal()
    cancel_requested = Signal()
    refresh_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Models")
        self._models: list[Any] = []
        self.is_known = False
        """True once the disk was looked at; nothing is offered before."""
        self._loaded: str | None = None
        self._busy = False
        self._replying = False

        head = QHBoxLayout()
        parts.margins(head, 8, 0, 0, 0, 4)
        self._refresh = parts.button("Refresh", "link", "Look for models on this computer again")
        heading = parts.Elided("On this computer")
        heading.setProperty("text-role", "heading")
        head.addWidget(heading, 1)
        head.addWidget(self._refresh)

        self.list = _List()
        self.list.setItemDelegate(RowDelegate(self.list))
        self.list.setAccessibleName("Models on this computer")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.list.setMouseTracking(True)
        self.list.setUniformItemSizes(False)

        self.open_button = OpenButton()
        self.open_button.folder_chosen.connect(self.load_requested)
        self.open_button.file_chosen.connect(self.import_requested)

        self.notice = Notice()
        self._progress = parts.surface("raised")
        box = QVBoxLayout(self._progress)
        parts.margins(box, 12, 8, 8, 10, 6)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 4)
        self._progress_words = parts.label("", "small", wrap=True)
        self._cancel = parts.button("Cancel", "link", "Stop this and leave nothing half made")
        row.addWidget(self._progress_words, 1)
        row.addWidget(self._cancel, 0, Qt.AlignmentFlag.AlignTop)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._bar.setAccessibleName("Progress")
        box.addLayout(row)
        box.addWidget(self._bar)
        self._progress.hide()

        self.load_button = parts.button("Load", "", "Load the selected model")
        self.unload_button = parts.button("Unload", "", "Unload the model and give its memory back")
        buttons = QHBoxLayout()
        parts.margins(buttons, 0, 0, 0, 0, 8)
        buttons.addWidget(self.load_button, 1)
        buttons.addWidget(self.unload_button)

        column = QVBoxLayout(self)
        parts.margins(column, 10, 12, 10, 12, 8)
        column.addLayout(head)
        column.addWidget(self.list, 1)
        column.addWidget(self.open_button)
        column.addWidget(self.notice)
        column.addWidget(self._progress)
        column.addLayout(buttons)

        self._refresh.clicked.connect(self.refresh_requested)
        self._cancel.clicked.connect(self.cancel_requested)
        self.unload_button.clicked.connect(self.unload_requested)
        self.load_button.clicked.connect(self.activate)
        self.list.itemActivated.connect(lambda _item: self.activate())
        self.list.currentItemChanged.connect(lambda *_: self._buttons())
        self._buttons()

    # What the window tells the panel -----------------------------------------------------------

    def set_models(self, models: Sequence[Any]) -> None:
        """Show the ModelInfos found; the selection stays on the same path where it is still there."""
        chosen = self.selected_path()
        self.is_known = True
        self._models = sorted(models, key=lambda info: (not is_starter(info), info.problem is not None))
        self.list.clear()
        if self.starter() is None:
            self._add(RowText("Starter model", OFFER), "")
        for info in self._models:
            path = str(info.path)
            self._add(row_text(info, loaded=path == self._loaded), path)
        keep = [i for i in range(self.list.count()) if self.list.item(i).data(_PATH) == (chosen or "")]
        self.list.setCurrentRow(keep[0] if keep else 0)
        self._buttons()

    def set_loaded(self, info: Any | None) -> None:
        """The model that is loaded, or None. Progress and notice end."""
        self._loaded = str(info.path) if info is not None else None
        self.set_progress_done()
        if info is not None and self._loaded not in {str(known.path) for known in self._models}:
            self._models.append(info)
        if info is not None or self.is_known:
            self.set_models(self._models)
        if self._loaded:
            for index in range(self.list.count()):
                if self.list.item(index).data(_PATH) == self._loaded:
                    self.list.setCurrentRow(index)

    def set_progress(self, fraction: float | None, sentence: str) -> None:
        """Loading, importing or fetching goes on; ``fraction`` None when its length is unknown."""
        self._busy = True
        self.notice.clear()
        self._progress_words.setText(words.clean(sentence))
        self._bar.setRange(0, 0 if fraction is None else 1000)
        if fraction is not None:
            self._bar.setValue(round(min(1.0, max(0.0, fraction)) * 1000))
        self._cancel.setEnabled(True)
        self._progress.show()
        self._buttons()

    def set_progress_done(self) -> None:
        """Whatever was going on has ended."""
        self._busy = False
        self._progress.hide()
        self._buttons()

    def show_error(self, sentence: str, details: str = "") -> None:
        """Say what went wrong here; progress ends."""
        self.set_progress_done()
        self.notice.show_error(sentence, details)

    def set_replying(self, replying: bool) -> None:
        """While a reply runs the model can be neither changed nor unloaded."""
        self._replying = replying
        self._buttons()

    # What the person does ----------------------------------------------------------------------

    def starter(self) -> Any | None:
        """The starter model among those found, or None."""
        return next((info for info in self._models if is_starter(info) and not info.problem), None)

    def is_busy(self) -> bool:
        """True while loading, importing or fetching."""
        return self._busy

    def selected_path(self) -> str | None:
        """Path of the selected model, '' for the starter's offer, None without a selection."""
        item = self.list.currentItem()
        return item.data(_PATH) if item else None

    def activate(self) -> None:
        """Load the selected model, import it when it is a GGUF file, or fetch the starter."""
        path = self.selected_path()
        if path is None or not self.load_button.isEnabled():
            return
        self.notice.clear()
        info = self._info(path)
        if path == "":
            self.starter_requested.emit()
        elif info is not None and info.format == "gguf":
            self.import_requested.emit(path)
        else:
            self.load_requested.emit(path)

    def _info(self, path: str | None) -> Any | None:
        return next((info for info in self._models if str(info.path) == path), None)

    def _add(self, text: RowText, path: str) -> None:
        item = QListWidgetItem()
        item.setData(ROW, text)
        item.setData(_PATH, path)
        spoken = f"{text.name}. {text.detail}"
        item.setData(Qt.ItemDataRole.AccessibleTextRole, spoken)
        item.setToolTip(f"{spoken}\n{path}" if path else spoken)
        self.list.addItem(item)

    def _buttons(self) -> None:
        path, info = self.selected_path(), self._info(self.selected_path())
        free = not self._busy and not self._replying
        usable = path == "" or (info is not None and not info.problem and path != self._loaded)
        self.load_button.setText("Get" if path == "" else "Load")
        self.load_button.setAccessibleName(GET_STARTER if path == "" else "Load the selected model")
        self.load_button.setEnabled(free and usable)
        self.unload_button.setVisible(self._loaded is not None)
        self.unload_button.setEnabled(free)
        self.open_button.setEnabled(free)
        self._refresh.setEnabled(free)


class OpenButton(QWidget):
    """'Open folder or GGUF...': asks which of the two, then for the path."""

    folder_chosen = Signal(str)
    file_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        text = "Open…" if parts.large_text() else "Open folder or GGUF…"
        self.button = parts.button(text, "row", "Open a model that is not in the list", "Open folder or GGUF")
        menu = QMenu(self)
        menu.addAction("Model folder…").triggered.connect(self.ask_folder)
        menu.addAction("GGUF file…").triggered.connect(self.ask_file)
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


def is_starter(info: Any) -> bool:
    """True for the model that this app fetches by itself."""
    return info.source == "this app" and info.name.startswith(STARTER)
