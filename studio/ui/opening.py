"""Models come and go: loaded, imported, downloaded or dropped on the window, and given back."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget

from studio.core.recent import note_model, recent_models
from studio.core.store import Store
from studio.ui.applying import Applying
from studio.ui.chat import Chat
from studio.ui.downloads import Downloads
from studio.ui.fits import Fits
from studio.ui.link import EngineLike
from studio.ui.models_panel import ModelsPanel
from studio.ui.questions import confirm
from veloxquant_mlx.errors import VeloxQuantError

REPLYING = ("resuming", "prefill", "generating", "rereading", "side")
"""States of the engine in which a conversation, or answers side by side, would be cut short."""


class Opening(QObject):
    """Tells the engine which model is wanted, and shows at once that it is on its way."""

    begun = Signal()
    """A model is on its way."""

    def __init__(
        self, window: QWidget, engine: EngineLike, applying: Applying, models: ModelsPanel, chat: Chat,
        fits: Fits, store: Store,
    ) -> None:  # fmt: skip
        super().__init__(window)
        self._window, self._engine, self._applying, self._models = window, engine, applying, models
        self._chat, self._fits, self._store = chat, fits, store
        self.downloads = Downloads(self)
        self._recent = recent_models(store)
        models.set_recent(self._recent)
        window.setAcceptDrops(True)
        models.load_requested.connect(self.load)
        models.import_requested.connect(self.import_gguf)
        models.starter_requested.connect(self.fetch_starter)
        models.download_requested.connect(self.download)
        models.pause_requested.connect(self.downloads.pause)
        models.give_up_requested.connect(self.downloads.give_up)
        models.unload_requested.connect(self.unload)
        models.cancel_requested.connect(engine.stop)
        models.refresh_requested.connect(self.look)
        chat.empty.action_chosen.connect(self.start_somewhere)
        engine.loaded.connect(self._on_loaded)
        self.downloads.changed.connect(lambda: models.set_downloads(self.downloads.all()))
        self.downloads.ended.connect(lambda _: self.look())
        self.downloads.failed.connect(lambda sentence: models.notice.show_error(sentence))

    def look(self) -> None:
        """See what is on this computer, and what is on its way."""
        self.downloads.look()
        self._engine.find_models(self._recent)

    def open_path(self, path: str) -> None:
        """Load a model folder, import a .gguf file, or get the starter model (``starter``)."""
        if path == "starter":
            self.fetch_starter()
        elif Path(path).suffix.lower() == ".gguf":
            self.import_gguf(path)
        else:
            self.load(path)

    def load(self, path: str) -> None:
        """Load a model folder; asks where a reply would be cut short, or memory seems too small."""
        objection = self._fits.objection(path)
        if objection and not confirm(
            self._window, f"{objection} Load {Path(path).name} anyway?",
            "The machine may become very slow, or end the app.", "Load anyway",
        ):  # fmt: skip
            return
        if self._may_begin(f"Load {Path(path).name}?", "Loading the model"):
            self._engine.load(path, bool(objection))

    def import_gguf(self, path: str) -> None:
        """Make a model folder of a .gguf file and load it."""
        if self._may_begin(f"Import {Path(path).name}?", "Reading the GGUF file"):
            self._engine.import_gguf(path)

    def fetch_starter(self) -> None:
        """Get the starter model, once, and load it."""
        if self._may_begin("Get the starter model?", "Getting the starter model"):
            self._engine.fetch_starter()

    def start_somewhere(self) -> None:
        """The starter model, wherever it is."""
        starter = self._models.starter()
        if starter is None:
            self.fetch_starter()
        else:
            self.load(str(starter.path))

    def download(self, name: str) -> None:
        """Fetch a repository beside whatever runs, or go on with it."""
        self._models.notice.clear()
        try:
            self.downloads.start(name)
        except VeloxQuantError as error:
            self._models.notice.show_error(str(error))

    def unload(self) -> None:
        """Give the model's memory back."""
        if self._may_stop("Unload the model?"):
            # The cache of the chat is saved first, which takes a while for a large one.
            self._models.set_progress(None, "Unloading the model", may_stop=False)
            self.begun.emit()
            self._applying.forget()
            self._engine.unload()

    def _may_stop(self, question: str) -> bool:
        return self._engine.state not in REPLYING or confirm(
            self._window, question, "A reply is being written. It ends here; what is written of it stays.",
            "Stop the reply",
        )  # fmt: skip

    def _may_begin(self, question: str, sentence: str) -> bool:
        if not self._may_stop(question):
            return False
        self._models.set_progress(None, sentence)
        if self._chat.is_empty():
            self._chat.empty.show_busy(sentence)
        self.begun.emit()
        self._applying.forget()
        return True

    def _on_loaded(self, loaded: Any) -> None:
        self._recent = note_model(self._store, str(loaded.info.path), self._recent)
        self._models.set_recent(self._recent)

    # Dropping a model on the window ------------------------------------------------------------

    def drop(self, event: QDropEvent) -> None:
        """A folder or a GGUF file is welcome: let go on the window, it is opened."""
        path = self._dropped(event)
        if path:
            event.acceptProposedAction()
            if event.type() == QEvent.Type.Drop:
                self.open_path(path)

    def _dropped(self, event: QDropEvent) -> str:
        urls = event.mimeData().urls()
        path = urls[0].toLocalFile() if len(urls) == 1 else ""
        is_model = bool(path) and (Path(path).is_dir() or Path(path).suffix.lower() == ".gguf")
        is_loading = self._engine.busy and self._engine.state not in REPLYING
        return path if is_model and not is_loading else ""
