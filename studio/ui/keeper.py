"""When the cache of a chat is saved, and when a saved one is gone back to. Lives on the engine's thread."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from studio.core.caches import ChatCaches, why_not_kept
from studio.core.request import Request

if TYPE_CHECKING:
    from studio.core.session import Session

_log = logging.getLogger(__name__)

PAUSE_MS = 2000
"""How long nothing is asked before a cache is saved: whoever answers at once does not wait for the disk."""


class CacheKeeper(QObject):
    """Saves after a reply, once nothing more is asked for a while, and at once when the chat is left.

    Nothing that goes wrong here stops anything: a chat without a saved cache is read again.
    """

    noted = Signal(str)
    """Saving fails; said once until it goes well again."""
    saving = Signal(bool)
    """Whether a file is being written: a large cache takes a while."""
    told = Signal(object)
    """Bytes that the saved caches of all chats take, measured."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._caches: ChatCaches | None = None
        self._session: Session | None = None
        self._chat = 0
        """The chat whose conversation the session has, 0 for none."""
        self._is_kept = False
        """That chat is in the store."""
        self._unsaved = False
        self._said = False
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(self.save)

    def use(self, store: Path | None, limit: int) -> None:
        """Save beside ``store`` from now on, at most ``limit`` bytes of all chats; None saves none."""
        self._caches = None if store is None else ChatCaches(store, limit)
        self.tidy()

    def tidy(self, limit: int | None = None) -> None:
        """Remove what no chat has any more, and what is above the limit; see ChatCaches."""
        if self._caches is not None:
            with self._calmly():
                self.told.emit(self._caches.tidy(limit))

    def enter(self, session: "Session", request: Request, resuming: Callable[[], None]) -> None:
        """Before a reply: have the session hold this chat's cache or none, the saved one where it fits.

        ``resuming`` is called before a file is read.
        """
        self._pause.stop()
        if request.chat != self._chat:
            self.leave(session)
        self._session = session
        self._chat, self._is_kept = request.chat, request.journal is not None
        if self._caches is None or not self._is_kept or session.held:
            return
        with self._calmly():
            if self._caches.fits(request.chat, session):
                resuming()
                self._caches.resume(request.chat, session)

    def grew(self) -> None:
        """The session's cache is another than before."""
        if self._is_kept:
            self._unsaved = True
            self._pause.start(PAUSE_MS)

    def leave(self, session: "Session") -> None:
        """The chat ends for the session, and is forgotten there."""
        self.save()
        session.new_chat()
        self._chat, self._is_kept = 0, False

    @Slot()
    def save(self) -> None:
        """Save the cache now, unless its file is as new."""
        self._pause.stop()
        if self._unsaved and self._caches is not None and self._session is not None:
            self._unsaved = False
            self.saving.emit(True)
            with self._calmly(say=True):
                self._caches.keep(self._chat, self._session)
                self._said = False
            self.saving.emit(False)
            self.tidy()

    @contextlib.contextmanager
    def _calmly(self, *, say: bool = False) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            _log.warning("A saved cache: %s", error, exc_info=True)
            if say and not self._said:
                self._said = True
                self.noted.emit(why_not_kept(error))
