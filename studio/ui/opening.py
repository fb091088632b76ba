"""Models come and go: loaded, imported, fetched or dropped on the window, and given back."""

from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget

from studio.ui.applying import Applying
from studio.ui.chat import Chat
from studio.ui.link import EngineLike
from studio.ui.models_panel import ModelsPanel


class Opening(QObject):
    """Tells the engine which model is wanted, and shows at once that it is on its way."""

    begun = Signal()
    """A model is on its way."""

    def __init__(
        self, window: QWidget, engine: EngineLike, applying: Applying, models: ModelsPanel, chat: Chat
    ) -> None:
        super().__init__(window)
        self._engine, self._applying, self._models, self._chat = engine, applying, models, chat
        window.setAcceptDrops(True)
        window.installEventFilter(self)
        models.load_requested.connect(self.load)
        models.import_requested.connect(self.import_gguf)
        models.starter_requested.connect(self.fetch_starter)
        models.unload_requested.connect(self.unload)
        models.cancel_requested.connect(engine.stop)
        models.refresh_requested.connect(engine.find_models)
        chat.empty.action_chosen.connect(self.start_somewhere)

    def open_path(self, path: str) -> None:
        """Load a model folder, import a .gguf file, or get the starter model (``starter``)."""
        if path == "starter":
            self.fetch_starter()
        elif Path(path).suffix.lower() == ".gguf":
            self.import_gguf(path)
        else:
            self.load(path)

    def load(self, path: str) -> None:
        """Load a model folder."""
        self._begin("Loading the model")
        self._engine.load(path)

    def import_gguf(self, path: str) -> None:
        """Make a model folder of a .gguf file and load it."""
        self._begin("Reading the GGUF file")
        self._engine.import_gguf(path)

    def fetch_starter(self) -> None:
        """Get the starter model, once, and load it."""
        self._begin("Getting the starter model")
        self._engine.fetch_starter()

    def start_somewhere(self) -> None:
        """The starter model, wherever it is."""
        starter = self._models.starter()
        if starter is None:
            self.fetch_starter()
        else:
            self.load(str(starter.path))

    def unload(self) -> None:
        """Give the model's memory back."""
        self._applying.forget()
        self._engine.unload()

    def _begin(self, sentence: str) -> None:
        self._models.set_progress(None, sentence)
        if self._chat.is_empty():
            self._chat.empty.show_busy(sentence)
        self.begun.emit()
        self._applying.forget()

    # Dropping a model on the window ------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Folders and GGUF files are welcome."""
        if isinstance(event, QDropEvent) and event.type() in (QEvent.Type.DragEnter, QEvent.Type.Drop):
            path = self._dropped(event)
            if path:
                event.acceptProposedAction()
                if event.type() == QEvent.Type.Drop:
                    self.open_path(path)
                return True
        return super().eventFilter(watched, event)

    def _dropped(self, event: QDropEvent) -> str:
        urls = event.mimeData().urls()
        path = urls[0].toLocalFile() if len(urls) == 1 else ""
        is_model = bool(path) and (Path(path).is_dir() or Path(path).suffix.lower() == ".gguf")
        return path if is_model and not self._engine.busy else ""
