"""While the person is elsewhere: the computer stays awake for a reply, and the end of a long wait is told."""

import os
import shutil
import sys
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QProcess, QTimer
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from studio.core.settings import Settings
from studio.ui.link import EngineLike

LONG_SECONDS = 10.0
"""A wait from which on a person may have turned to something else."""
SHOWN_MS = 8_000


def awake_command() -> list[str]:
    """The system's own tool that holds off sleep until it is ended or this process is; [] without one."""
    me = str(os.getpid())
    if sys.platform == "darwin":
        return ["/usr/bin/caffeinate", "-i", "-w", me]
    inhibit, tail = shutil.which("systemd-inhibit"), shutil.which("tail")
    if sys.platform.startswith("linux") and inhibit and tail:
        return [
            inhibit, "--what=sleep:idle", "--who=VeloxQuant Studio", "--why=A reply is being written",
            tail, f"--pid={me}", "-f", "/dev/null",
        ]  # fmt: skip
    return []


class Background(QObject):
    """Follows the engine's states for one window."""

    def __init__(self, window: QWidget, engine: EngineLike, settings: Callable[[], Settings]) -> None:
        super().__init__(window)
        self._window, self._settings = window, settings
        self._state = engine.state
        self._since = time.monotonic()
        self._awake: QProcess | None = None
        self._tray: QSystemTrayIcon | None = None
        engine.state_changed.connect(self._changed)

    def is_awake(self) -> bool:
        """True while the system was asked not to sleep."""
        return self._awake is not None

    def close(self) -> None:
        """Nothing is held any more."""
        self._let_sleep()
        if self._tray is not None:
            self._tray.hide()

    def _changed(self, state: str) -> None:
        before, waited = self._state, time.monotonic() - self._since
        if state == before:
            return
        self._state, self._since = state, time.monotonic()
        if state in ("prefill", "generating", "rereading", "side") and self._settings().keep_awake:
            self._stay_awake()
        elif state == "idle":
            self._let_sleep()
        sentence = {
            ("prefill", "generating"): "The prompt is read; the reply is being written.",
            ("generating", "idle"): "The reply is finished.",
            ("rereading", "idle"): "The conversation was read again.",
            ("loading", "idle"): "The model is ready.",
        }.get((before, state))
        if sentence and waited >= LONG_SECONDS and self._settings().notify and not self._is_looked_at():
            self._tell(sentence)

    def _is_looked_at(self) -> bool:
        return self._window.isActiveWindow() and not self._window.isMinimized()

    def _tell(self, sentence: str) -> None:
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            if self._tray is None:
                self._tray = QSystemTrayIcon(QApplication.windowIcon(), self)
                self._tray.messageClicked.connect(self._window.activateWindow)
            # An icon is needed to speak; it is gone again with the message.
            self._tray.show()
            self._tray.showMessage("VeloxQuant Studio", sentence, QApplication.windowIcon(), SHOWN_MS)
            QTimer.singleShot(SHOWN_MS, self._tray, self._tray.hide)

    def _stay_awake(self) -> None:
        command = awake_command()
        if self._awake is None and command:
            self._awake = QProcess(self)
            self._awake.start(command[0], command[1:])

    def _let_sleep(self) -> None:
        if self._awake is not None:
            process, self._awake = self._awake, None
            process.kill()
            process.waitForFinished(1000)
            process.deleteLater()
