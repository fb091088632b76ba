"""The models on this computer and on their way to it, and the ways to load, open, fetch and unload one."""

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from studio.core.fit import Fit
from studio.ui import parts
from studio.ui.downloads import Download
from studio.ui.errors import Notice
from studio.ui.models_list import ModelsList, is_starter, key_of
from studio.ui.open_button import OpenButton
from studio.ui.progress_card import ProgressCard
from studio.ui.search_line import SearchLine

GET_STARTER = "Get the starter model, 93 MB"


class ModelsPanel(QFrame):
    """Commands leave as signals with a path as text; the engine answers through the set_ methods."""

    load_requested = Signal(str)
    starter_requested = Signal()
    import_requested = Signal(str)
    download_requested = Signal(str)
    """Name of a repository, to be begun or gone on with."""
    pause_requested = Signal(str)
    give_up_requested = Signal(str)
    unload_requested = Signal()
    cancel_requested = Signal()
    refresh_requested = Signal()
    plan_requested = Signal(str)
    """Path of the model whose memory is to be planned."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Models")
        self._models: list[Any] = []
        self._downloads: Sequence[Download] = ()
        self._recent: Sequence[str] = ()
        self.is_known = False
        """True once the disk was looked at; nothing is offered before."""
        self._busy = False

        head = QHBoxLayout()
        parts.margins(head, 0, 0, 0, 0, 4)
        self.search = SearchLine("Search models")
        self.open_button = OpenButton()
        head.addWidget(self.search, 1)
        head.addWidget(self.open_button)
        self.nothing = parts.label("No model has all these words.", "small", wrap=True)
        self.nothing.hide()
        self.list = ModelsList()
        self.notice = Notice()
        self.progress = ProgressCard()
        self.load_button = parts.button("Load", "", "Load the selected model")
        self.unload_button = parts.button("Unload", "", "Unload the model and give its memory back")
        self.plan_button = parts.button(
            "Plan…", "", "What the selected model takes in memory, and the longest context that fits"
        )
        self.give_up_button = parts.button("Cancel", "", "Stop this download and remove what has come of it")
        self.give_up_button.setAccessibleName("Cancel the selected download")
        buttons = QHBoxLayout()
        parts.margins(buttons, 0, 0, 0, 0, 8)
        buttons.addWidget(self.load_button, 1)
        buttons.addWidget(self.plan_button)
        buttons.addWidget(self.give_up_button)
        last = buttons
        if parts.large_text():
            # Three words are wider than the panel.
            last = QHBoxLayout()
            parts.margins(last, 0, 0, 0, 0, 8)
        last.addWidget(self.unload_button)
        column = QVBoxLayout(self)
        parts.margins(column, 10, 10, 10, 10, 6)
        column.addLayout(head)
        column.addWidget(self.nothing)
        column.addWidget(self.list, 1)
        column.addWidget(self.notice)
        column.addWidget(self.progress)
        column.addLayout(buttons)
        if last is not buttons:
            column.addLayout(last)
        self._wire()
        self._buttons()

    def _wire(self) -> None:
        self.open_button.folder_chosen.connect(self.load_requested)
        self.open_button.file_chosen.connect(self.import_requested)
        self.open_button.download_chosen.connect(self.download_requested)
        self.progress.cancel_requested.connect(self.cancel_requested)
        self.open_button.look_chosen.connect(self.refresh_requested)
        self.unload_button.clicked.connect(self.unload_requested)
        self.give_up_button.clicked.connect(self._give_up)
        self.load_button.clicked.connect(self.activate)
        self.plan_button.clicked.connect(lambda: self.plan_requested.emit(self.selected_path() or ""))
        self.list.itemActivated.connect(lambda _item: self.activate())
        self.list.currentItemChanged.connect(lambda *_: self._buttons())
        self.list.removal_requested.connect(self._give_up)
        self.search.textChanged.connect(lambda _: self._find())

    # What the window tells the panel -----------------------------------------------------------

    def set_models(self, models: Sequence[Any]) -> None:
        """Show the ModelInfos found; the selection stays on the same path where it is still there."""
        self.is_known = True
        self._models = list(models)
        self._show()

    def set_recent(self, paths: Sequence[str]) -> None:
        """Models that were used, the last one first."""
        self._recent = paths
        self._show()

    def set_downloads(self, downloads: Sequence[Download]) -> None:
        """Models on their way to this computer."""
        self._downloads = downloads
        self._show()

    def set_assessment(self, assess: Callable[[Any], tuple[Fit | None, str]]) -> None:
        """How a model's fit and the plan for it are found; call it again when they may be others."""
        self.list.set_assessment(assess)

    def set_loaded(self, info: Any | None) -> None:
        """The model that is loaded, or None. Progress and notice end."""
        path = self.list.loaded = str(info.path) if info is not None else None
        self.set_progress_done()
        if info is not None and path not in {str(known.path) for known in self._models}:
            self._models.append(info)
        if info is not None or self.is_known:
            self.set_models(self._models)
        if path is not None:
            self.list.select(path)

    def set_progress(self, fraction: float | None, sentence: str, *, may_stop: bool = True) -> None:
        """Loading, importing, fetching or unloading goes on; ``fraction`` None when its length is unknown."""
        self._busy = True
        self.notice.clear()
        self.progress.show_progress(fraction, sentence, may_stop=may_stop)
        self._buttons()

    def set_progress_done(self) -> None:
        """Whatever was going on has ended."""
        self._busy = False
        self.progress.hide()
        self._buttons()

    def show_error(self, sentence: str, details: str = "") -> None:
        """Say what went wrong here; progress ends."""
        self.set_progress_done()
        self.notice.show_error(sentence, details)

    # What the person does ----------------------------------------------------------------------

    def starter(self) -> Any | None:
        """The starter model among those found, or None."""
        return next((info for info in self._models if is_starter(info) and not info.problem), None)

    def info(self, path: str) -> Any | None:
        """What is known of the model at a path."""
        return next((info for info in self._models if str(info.path) == path), None)

    def is_busy(self) -> bool:
        """True while loading, importing or fetching."""
        return self._busy

    def selected_path(self) -> str | None:
        """Path of the selected model, '' for the starter's offer, None without a selection."""
        return key_of(self.list.selected()) if self.list.currentItem() else None

    def activate(self) -> None:
        """Load the selected model, import it when it is a GGUF file, fetch the starter, or pause a download
        and go on with it."""
        if not self.list.currentItem() or not self.load_button.isEnabled():
            return
        self.notice.clear()
        entry = self.list.selected()
        if entry is None:
            self.starter_requested.emit()
        elif isinstance(entry, Download):
            (self.pause_requested if entry.is_running else self.download_requested).emit(entry.repository)
        elif entry.format == "gguf":
            self.import_requested.emit(str(entry.path))
        else:
            self.load_requested.emit(str(entry.path))

    def _give_up(self) -> None:
        entry = self.list.selected()
        if isinstance(entry, Download):
            self.give_up_requested.emit(entry.repository)

    def _show(self) -> None:
        if self.is_known:
            self.list.show_entries(self._models, self._downloads, self._recent)
            self._find()
            self._buttons()

    def _find(self) -> None:
        shown = self.list.narrow(self.search.text())
        self.nothing.setVisible(not shown and bool(self.search.text().strip()))

    def _buttons(self) -> None:
        entry, is_chosen = self.list.selected(), self.list.currentItem() is not None
        fetching = isinstance(entry, Download)
        if fetching:
            text, name = ("Pause", "Pause") if entry.is_running else ("Resume", "Go on with")
            said, usable = f"{name} the selected download", True
        elif entry is None:
            text, said, usable = "Get", GET_STARTER, is_chosen and not self._busy
        else:
            text, said = "Load", "Load the selected model"
            usable = not self._busy and not entry.problem and str(entry.path) != self.list.loaded
        self.load_button.setText(text)
        self.load_button.setAccessibleName(said)
        self.load_button.setToolTip(said)
        self.load_button.setEnabled(usable)
        self.give_up_button.setVisible(fetching)
        self.plan_button.setVisible(not fetching)
        self.plan_button.setEnabled(entry is not None and not fetching and entry.layout is not None)
        self.unload_button.setVisible(self.list.loaded is not None and not fetching)
        self.unload_button.setEnabled(not self._busy)
        self.open_button.setEnabled(not self._busy)
