"""How long a person waits for the window, measured; imports nothing that the window does not."""

import json
import os
import sys
import time
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

from studio.app import make_app, make_window
from studio.core.store import Store
from studio.ui.theme import Scheme
from studio.ui.window import MainWindow


class _FirstPaint(QObject):
    """Tells when a window is painted first, and ends the app."""

    def __init__(self, window: MainWindow, started: float) -> None:
        super().__init__(window)
        self._window, self._started = window, started
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Print it as JSON, once."""
        if event.type() == QEvent.Type.Paint:
            self._window.removeEventFilter(self)
            took = {
                "first_window": round(time.perf_counter() - self._started, 3),
                "processor_time": round(time.process_time(), 3),
            }
            print(json.dumps(took), flush=True)
            QTimer.singleShot(0, self, QApplication.quit)
        return False


def first_window(scheme: Scheme | None, started: float) -> int:
    """Open the window, print how long it took, in seconds and in processor time, and end."""
    started = min(started, time.perf_counter() - age())
    app = make_app(sys.argv[:1], scheme)
    # Its engine is not started: nothing comes after the first picture.
    window = make_window(app, Store())
    _FirstPaint(window, started)
    window.show()
    return app.exec()


def age() -> float:
    """Seconds since the system made this process; 0 where it doesn't tell."""
    if not sys.platform.startswith("linux"):
        return 0.0
    fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
