"""What the engine does beside replies: trying settings, looking for the smallest, comparing what was said."""

import contextlib
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from studio.ui.idle import IdleJob, IdleQueue
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError

if TYPE_CHECKING:
    from studio.core.comparing import Listener
    from studio.core.session import Session
    from veloxquant_mlx.models.load import LoadedModel


NOTHING_TRIED = "What it does to the answers is seen once the conversation is in the cache: send a message."
NOTHING_READ = "The search reads the conversation in the cache, and none is there yet: send a message first."


class _SessionJob(IdleJob):
    """A job on the conversation of a session."""

    session: "Session"
    listener: "Listener"

    progress = Signal(object)
    """ReplayStep while the conversation is read; None when it no longer is."""

    @property
    def model(self) -> "LoadedModel":
        """The loaded model."""
        return self.session.require_model()

    @property
    def ready(self) -> bool:
        """Whether there is a conversation in a model."""
        return hasattr(self, "session") and self.session.model is not None and bool(self.session.held)

    def put_off(self) -> None:
        """See IdleJob."""
        was = self._steps is not None
        super().put_off()
        if was:
            self.progress.emit(None)


class Comparer(_SessionJob):
    """Compares what waits for it."""

    done = Signal(object)
    """Comparison."""
    doing = "comparing a reply"

    @property
    def wanted(self) -> bool:
        """See IdleJob."""
        return self.ready and bool(self.listener.waiting)

    def begun(self) -> Generator[Any]:
        """See IdleJob."""
        from studio.core.comparing import compare

        return compare(self.model, self.listener, self.session.tokens, self.session.config)

    def take(self, step: Any) -> None:
        """See IdleJob."""
        if hasattr(step, "replies"):
            self.put_off()
            self.done.emit(step)
        else:
            self.progress.emit(step)

    def over(self) -> None:
        """What waits would fail again."""
        self.listener.done(self.listener.waiting)


class Trier(_SessionJob):
    """Tries the newest setting asked for."""

    tried = Signal(object)
    """Tried, after every slot; a sentence where nothing is tried."""
    doing = "trying a setting"
    config: KVCacheConfig | None = None
    _told = False
    """Whether every slot has its figure."""

    @property
    def wanted(self) -> bool:
        """See IdleJob."""
        return self.ready and self.config is not None

    def ask(self, config: KVCacheConfig | None) -> None:
        """Try this one, whatever was tried before; None tries nothing."""
        if config != self.config:
            self.put_off()
            self.config, self._told = config, False
        if config is not None and not self.ready:
            # It is tried as soon as there is something to try it on.
            self.say(NOTHING_TRIED)

    def estimate(self) -> None:
        """Tell of every slot at once, where the model need not run for it."""
        while self.wanted and not self._told and self.listener.captured is not None:
            self.step()
        self.put_off()

    def say(self, sentence: str) -> None:
        """Where the answer is awaited."""
        self.tried.emit(sentence)

    def begun(self) -> Generator[Any]:
        """See IdleJob."""
        from studio.core.what_if import try_setting

        if self.config is None:
            raise VeloxQuantError("No setting was asked for.")
        return try_setting(self.model, self.listener, self.session.tokens, self.config)

    def take(self, step: Any) -> None:
        """See IdleJob."""
        if hasattr(step, "errors"):
            self._told = len(step.errors) == step.slots
            self.tried.emit(step)
        else:
            self.progress.emit(step)

    def over(self) -> None:
        """See IdleJob."""
        self.config = None


class Finder(_SessionJob):
    """Looks for the smallest setting; a reply only holds it up, another conversation ends it."""

    found = Signal(object)
    """Finding; None when the search was ended before its end; a sentence when there is nothing to search."""
    doing = "looking for the smallest setting"
    limit: float | None = None

    @property
    def wanted(self) -> bool:
        """See IdleJob."""
        return self.limit is not None and (self._steps is not None or self.ready)

    def look(self, limit: float) -> None:
        """Begin a search."""
        self.drop()
        if self.ready:
            self.limit = limit
        else:
            self.found.emit(NOTHING_READ)

    def drop(self) -> None:
        """End the search."""
        if self.limit is not None:
            self.limit = None
            super().put_off()
            self.found.emit(None)

    def put_off(self) -> None:
        """It goes on where it is."""
        if self.limit is None:
            super().put_off()

    def begun(self) -> Generator[Any]:
        """See IdleJob."""
        from studio.core.what_if import find_smallest
        from veloxquant_mlx.config import methods

        own = [self.session.config]
        return find_smallest(
            self.model, self.listener, self.session.tokens, self.limit or 0.0, methods(), own
        )

    def take(self, step: Any) -> None:
        """See IdleJob."""
        (self.found if hasattr(step, "points") else self.progress).emit(step)

    def over(self) -> None:
        """See IdleJob."""
        self.drop()


class IdleWork(QObject):
    """The three of them on one session, the quickest first."""

    comparing = Signal(object)
    compared = Signal(object)
    tried = Signal(object)
    finding = Signal(object)
    noted = Signal(str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._trier, self._finder, self._comparer = Trier(self), Finder(self), Comparer(self)
        self._jobs = (self._trier, self._finder, self._comparer)
        self._queue = IdleQueue(self, self._jobs)
        for job in self._jobs:
            job.progress.connect(self.comparing)
            job.noted.connect(self.noted)
        self._comparer.done.connect(self.compared)
        self._trier.tried.connect(self.tried)
        self._finder.found.connect(self.finding)
        self._listener: Listener | None = None
        self.wished: deque[KVCacheConfig | None] = deque()
        """Settings to try, the newest last; filled from any thread."""

    def hear(self, session: "Session") -> None:
        """The session whose conversation it is all about."""
        from studio.core.comparing import Listener

        self._listener = session.listener = Listener()
        for job in self._jobs:
            job.session, job.listener = session, session.listener

    def compare(self, on: bool) -> None:
        """Keep and compare replies from now on, or don't."""
        if self._listener is not None:
            self._listener.on = on
            if not on:
                self._comparer.put_off()
                self._listener.done(self._listener.waiting)

    def try_setting(self) -> None:
        """Try the newest setting wished on the conversation; None tries nothing."""
        self._take_wishes()
        self._queue.wake()

    def between(self) -> None:
        """Between blocks of a conversation read again: what is wished meanwhile is estimated at once."""
        self._take_wishes()
        self._trier.estimate()

    def _take_wishes(self) -> None:
        while self.wished:
            self._trier.ask(self.wished.popleft())

    def find_smallest(self, limit: float | None) -> None:
        """Look for the smallest setting under a KL; None ends the search."""
        if limit is None:
            self._finder.drop()
        else:
            self._finder.look(limit)
            self._queue.wake()

    @contextlib.contextmanager
    def pausing(self, message: int | None = None) -> Iterator[None]:
        """While the session works for the person, perhaps on a reply: ``message`` of the store."""
        if self._listener is not None and message is not None:
            self._listener.message = message
        with self._queue.pausing():
            yield

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """While the conversation, or the model with it, goes away."""
        self.stop()
        with self._queue.pausing():
            yield

    def stop(self) -> None:
        """End everything."""
        self._trier.ask(None)
        self._finder.drop()
        self._queue.stop()
