"""Compares replies while nothing else is to be done. Lives on the engine's thread."""

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from veloxquant_mlx.errors import VeloxQuantError

if TYPE_CHECKING:
    from studio.core.comparing import Listener
    from studio.core.session import Session

_log = logging.getLogger(__name__)


class Comparer(QObject):
    """Reads on for one pass each time the thread's event loop has nothing else, so that whatever the person
    asks for comes first: it waits for one pass at most, and what was begun is begun anew afterwards.

    Nothing that goes wrong here stops anything.
    """

    progress = Signal(object)
    """ReplayStep; None when it ended or was put off."""
    done = Signal(object)
    """Comparison."""
    noted = Signal(str)
    """Why there is none, in a sentence."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._session: Session | None = None
        self._listener: Listener | None = None
        self._steps: Iterator[Any] | None = None
        self._idle = QTimer(self)
        self._idle.setInterval(0)
        self._idle.timeout.connect(self._step)

    def hear(self, session: "Session") -> None:
        """The session whose replies are compared once ``switch`` says so."""
        from studio.core.comparing import Listener

        self._session = session
        self._listener = session.listener = Listener()

    def switch(self, on: bool) -> None:
        """Whether replies are kept and compared from now on."""
        if self._listener is not None:
            self._listener.on = on
            if not on:
                self.stop()
                self._listener.done(self._listener.waiting)

    @contextlib.contextmanager
    def pausing(self, message: int | None = None) -> Iterator[None]:
        """While the session works for the person, perhaps on a reply: ``message`` of the store."""
        self.stop()
        if self._listener is not None and message is not None:
            self._listener.message = message
        try:
            yield
        finally:
            if self._listener is not None and self._listener.waiting:
                self._idle.start()

    def stop(self) -> None:
        """Put off what runs."""
        self._idle.stop()
        if self._steps is not None:
            self._end()

    @Slot()
    def _step(self) -> None:
        try:
            if self._steps is None:
                self._steps = self._begun()
            step = next(self._steps, None)
        except VeloxQuantError as error:
            self._give_up(str(error))
            return
        except Exception as error:
            _log.exception("comparing a reply")
            name = type(error).__name__
            self._give_up(f"The reply can't be compared ({name}); the details are in the log.")
            return
        if step is None:
            self.stop()
        elif hasattr(step, "replies"):
            self.stop()
            self.done.emit(step)
        else:
            self.progress.emit(step)

    def _begun(self) -> Iterator[Any]:
        from studio.core.comparing import compare

        session, listener = self._session, self._listener
        if session is None or session.model is None or listener is None:
            return iter(())
        return compare(session.model, listener, session.tokens, session.config)

    def _give_up(self, sentence: str) -> None:
        """What waits would fail again."""
        self.stop()
        if self._listener is not None:
            self._listener.done(self._listener.waiting)
        self.noted.emit(sentence)

    def _end(self) -> None:
        if self._steps is not None:
            with contextlib.suppress(AttributeError):
                self._steps.close()  # type: ignore[attr-defined]
        self._steps = None
        self.progress.emit(None)
