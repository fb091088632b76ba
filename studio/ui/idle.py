"""Work for when nothing else is to be done, one step at a time. Lives on the engine's thread."""

import contextlib
import logging
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from veloxquant_mlx.errors import VeloxQuantError

_log = logging.getLogger(__name__)


class IdleJob(QObject):
    """A generator that is advanced step by step while it is ``wanted``.

    Nothing that goes wrong here stops anything: it is said, and the job ends.
    """

    noted = Signal(str)
    """What went wrong, in a sentence."""

    doing = ""
    """What it does, for the log."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._steps: Generator[Any] | None = None

    @property
    def wanted(self) -> bool:
        """Whether there is something to do."""
        raise NotImplementedError

    def begun(self) -> Generator[Any]:
        """The steps, from their beginning."""
        raise NotImplementedError

    def take(self, step: Any) -> None:
        """Hand a step on."""
        raise NotImplementedError

    def over(self) -> None:
        """The steps came to their end, or failed: nothing is wanted any more."""
        raise NotImplementedError

    def say(self, sentence: str) -> None:
        """Say what went wrong."""
        self.noted.emit(sentence)

    def step(self) -> None:
        """Go on by one."""
        try:
            if self._steps is None:
                self._steps = self.begun()
            step = next(self._steps, None)
        except VeloxQuantError as error:
            self._fail(str(error))
            return
        except Exception as error:
            _log.exception(self.doing)
            self._fail(
                f"Something stopped {self.doing} ({type(error).__name__}); the details are in the log."
            )
            return
        if step is None:
            self.put_off()
            self.over()
        else:
            self.take(step)

    def put_off(self) -> None:
        """Begin anew when there is time again."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _fail(self, sentence: str) -> None:
        self.put_off()
        self.over()
        self.say(sentence)


class IdleQueue(QObject):
    """Does the first job that is wanted, a step each time the thread's event loop has nothing else.

    Whatever the person asks for so comes first: it waits for one step at most.
    """

    def __init__(self, parent: QObject, jobs: Sequence[IdleJob]) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._step)

    def wake(self) -> None:
        """There may be something to do."""
        self._timer.start()

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """While the thread works for the person."""
        self.stop()
        try:
            yield
        finally:
            self.wake()

    def stop(self) -> None:
        """Put everything off."""
        self._timer.stop()
        for job in self._jobs:
            job.put_off()

    @Slot()
    def _step(self) -> None:
        job = next((job for job in self._jobs if job.wanted), None)
        if job is None:
            self._timer.stop()
        else:
            job.step()
