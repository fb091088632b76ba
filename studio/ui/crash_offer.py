"""The first thing a start says after a crash: that there is a log, and a way to read it."""

from pathlib import Path

from PySide6.QtWidgets import QWidget

from studio.core.crashes import find_crash
from studio.ui.errors import Notice

CRASHED = "VeloxQuant Studio crashed last time. The log tells where; it stays on this computer."
ENDED = (
    "VeloxQuant Studio did not close in the usual way last time: it was ended from outside, as a system does "
    "when memory runs out. Its log stays on this computer."
)


def offer_crash_log(parent: QWidget, notice: Notice) -> None:
    """Say so in ``notice`` if an earlier run crashed, once."""
    crash = find_crash()
    if crash is not None:
        sentence = CRASHED if crash.has_trace else ENDED
        notice.show_error(sentence, crash.text, ("Show log", lambda: _show(parent, crash.path)))


def _show(parent: QWidget, log: Path) -> None:
    # Not before it is asked for: start-up waits for every import.
    from studio.ui.dialogs import LogWindow

    LogWindow(parent, log).show()
