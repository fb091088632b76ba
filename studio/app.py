"""Putting the app together: application, engine, window, in the order a person sees them."""

import atexit
import sys
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtGui import QFileOpenEvent, QIcon
from PySide6.QtWidgets import QApplication

from studio.core.settings import Settings, load
from studio.core.store import Store
from studio.ui import theme
from studio.ui.assets import asset
from studio.ui.crash_offer import offer_crash_log
from studio.ui.engine import Engine, EngineThread
from studio.ui.window import MainWindow


class App(QApplication):
    """The application; opens what the desktop hands it (a model dropped on the Dock icon)."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments)
        self.engine_thread = EngineThread()
        # Also where the event loop was never entered: Qt aborts where a running thread is destroyed.
        atexit.register(self.engine_thread.end)
        self._window: MainWindow | None = None
        self._wanted: str | None = None
        """What is to be opened as soon as the engine is ready."""
        self._ready = False

    def event(self, event: QEvent) -> bool:
        """Take a model folder or .gguf file from the desktop; macOS sends it before the window is shown."""
        if isinstance(event, QFileOpenEvent):
            self.open_model(event.file())
            return True
        return super().event(event)

    def open_model(self, path: str) -> None:
        """Open a folder, a .gguf file or ``starter``: at once, or when the engine is ready."""
        self._wanted = path
        self._open_wanted()

    def serve(self, window: MainWindow) -> None:
        """Open models in this window from now on."""
        self._window, self._ready = window, False
        window.engine.methods_ready.connect(self._on_ready)

    def _on_ready(self) -> None:
        self._ready = True
        self._open_wanted()

    def _open_wanted(self) -> None:
        if self._window is None or self._wanted is None or not self._ready:
            return
        path, self._wanted = self._wanted, None
        if self._window.engine.busy:
            self._window.chat.notice.show_note("Another model can be opened once the engine is done.")
        else:
            self._window.opening.open_path(path)


def make_app(arguments: list[str], scheme: theme.Scheme | None = None) -> App:
    """The application in its own look; ``scheme`` None follows the system."""
    app = App(arguments)
    app.setApplicationName("VeloxQuant Studio")
    app.setDesktopFileName("veloxquant-studio")
    app.setWindowIcon(QIcon(str(asset("icon.svg"))))
    theme.apply_theme(app, scheme)
    return app


def make_window(app: App, store: Store) -> MainWindow:
    """The window with an engine that is not started yet."""
    engine = Engine(thread=app.engine_thread)
    with theme.undressed(app):
        window = MainWindow(engine, store)
    # What is connected to the engine holds the window: it must go with it.
    engine.setParent(window)
    return window


def open_window(
    app: App, model: str | None = None, scheme: theme.Scheme | None = None, store: Store | None = None
) -> MainWindow:
    """Show the window; once it is painted the engine starts and imports what is heavy on its thread.

    Args:
        model: a folder, a .gguf file or ``starter``, to be opened as soon as the engine is ready.
        scheme: what make_app was told; None leaves it to the person's settings.
        store: where chats are kept; None is the data folder.
    """
    store = store or Store()
    if scheme is None:
        theme.apply_appearance(load(store, Settings).appearance)
    window = make_window(app, store)
    app.serve(window)
    if model is not None:
        app.open_model(model)
    window.show()
    _AfterPaint(window)
    return window


class _AfterPaint(QObject):
    """Starts the engine once the window is on the screen: its imports would delay the first picture."""

    LONGEST_MS = 500
    """A window that opens minimised is not painted; its engine starts all the same."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._begun = False
        window.installEventFilter(self)
        QTimer.singleShot(self.LONGEST_MS, self, self._begin)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Look for the first paint; the queue goes on first, so that it is finished."""
        if event.type() == QEvent.Type.Paint and not self._begun:
            QTimer.singleShot(0, self, self._begin)
        return False

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._window.removeEventFilter(self)
            self._window.start()


def run(model: str | None, scheme: theme.Scheme | None = None) -> int:
    """Run the app until its window is closed; returns the exit code."""
    app = make_app(sys.argv[:1], scheme)
    path = model if model in (None, "starter") else str(Path(model).expanduser().absolute())
    window = open_window(app, path, scheme)
    offer_crash_log(window, window.chat.notice)
    return app.exec()
