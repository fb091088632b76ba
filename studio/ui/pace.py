"""What the window does to leave the processor to a reply: it rests, paints once, and nothing blinks."""

import time

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

SHORTEST_MS, LONGEST_MS = 50, 2000
"""Twenty looks a second where they cost next to nothing; on a slow machine words come some at a time."""
SOON_MS = 200
"""Until the first words of a reply are seen."""
SHARED, APART = 240, 20
"""The rest is this many times the processor time that was taken. Where the model computes on the same cores
all of that is the reply's loss, so that words and charts get less than half a hundredth of a core each."""


def share_beside(compute: str) -> int:
    """How long to rest beside a model that computes as these words say: ``SHARED`` or ``APART``."""
    return SHARED if compute.startswith("CPU") else APART


class Pace:
    """Sets a rest in proportion to the processor time of this thread, which holds painting too."""

    def __init__(self, shortest: int = SHORTEST_MS, longest: int = LONGEST_MS) -> None:
        """The bounds are milliseconds."""
        self._shortest, self._longest = shortest, longest
        self.share = SHARED
        self.begin()

    def begin(self) -> None:
        """What the thread does from now on counts."""
        self._spent = time.thread_time()

    def rest(self) -> int:
        """Milliseconds to rest after what the thread did since ``begin``, or since this was asked last."""
        before, self._spent = self._spent, time.thread_time()
        return round(min(self._longest, max(self._shortest, 1000 * self.share * (self._spent - before))))


_NESTED = 12
"""Layouts around one another between a word of a reply and the window."""


def lay_out() -> None:
    """Have all layouts follow what changed before anything is painted.

    Each tells the one around it with an event of its own, and painting comes in between: what a new line
    moves would be painted two or three times.
    """
    for _ in range(_NESTED):
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.UpdateLater)


class StillCursors:
    """Text cursors that do not blink while a reply is written: each blink is a picture of its own, and two of
    them a second cost a fifth of what all the window does then."""

    def __init__(self) -> None:
        self._before: int | None = None

    def keep_still(self, still: bool) -> None:
        """Whether they stand still from now on; what the desktop asks for holds otherwise."""
        if still and self._before is None:
            self._before = QApplication.cursorFlashTime()
            QApplication.setCursorFlashTime(0)
        elif not still and self._before is not None:
            QApplication.setCursorFlashTime(self._before)
            self._before = None
