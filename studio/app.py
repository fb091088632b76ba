"""Putting the app together: application, engine, window, in the order a person sees them."""

import sys
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QFileOpenEvent, QIcon
from PySide6.QtWidgets import QApplication

from studio.ui import theme
from studio.ui.assets import asset
from studio.ui.engine import Engine
from studio.ui.window import MainWindow


class App(QApplication):
    """The application; opens what the desktop hands it (a model dropped on the Dock icon)."""

    window: MainWindow | None = None

    def event(self, event) -> bool:  # type: ignore[no-untyped-def]
        """Take a model folder or .gguf file from the desktop."""
        if isinstance(event, QFileOpenEvent) and self.window is not None:
            self.window.open_path(event.file())
            return True
        return super().event(event)


def make_app(arguments: list[str], scheme: theme.Scheme | None = None) -> App:
    """The application in its own look; ``scheme`` None follows the system."""
    app = App(arguments)
    app.setApplicationName("VeloxQuant Studio")
    app.setDesktopFileName("veloxquant-studio")
    app.setWindowIcon(QIcon(str(asset("icon.svg"))))
    theme.apply_theme(app, scheme)
    return app


def open_window(app: App, model: str | None = None) -> MainWindow:
    """Show the window, then start the engine: what is heavy is imported on its thread meanwhile.

    Args:
        model: a folder, a .gguf file or ``starter``, to be opened as soon as the engine is ready.
    """
    window = MainWindow(Engine())
    app.window = window
    window.show()
    if model is not None:
        window.engine.methods_ready.connect(lambda _: window.open_path(model))
    QTimer.singleShot(0, window.start)
    return window


def run(model: str | None, scheme: theme.Scheme | None = None) -> int:
    """Run the app until its window is closed; returns the exit code."""
    app = make_app(sys.argv[:1], scheme)
    open_window(app, model if model in (None, "starter") else str(Path(model).expanduser().absolute()))
    return app.exec()
