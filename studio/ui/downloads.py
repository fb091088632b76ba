"""Downloads of this window, each in a process of its own: begun, paused, gone on with, given up."""

import logging
import time
from dataclasses import dataclass

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from studio.core.fetching import Told, command, read
from studio.ui import words
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.disk import readable
from veloxquant_mlx.models.hub import forget, repository_of, unfinished

_log = logging.getLogger(__name__)
_ENDS_MS = 2000
_STEADY_SECONDS = 2.0
"""A pace is told once it was measured for so long."""


@dataclass(frozen=True, slots=True)
class Download:
    """A model on its way, or one that was stopped on it."""

    repository: str
    words: str
    share: float | None = None
    is_running: bool = False


class Downloads(QObject):
    """``changed`` when ``all()`` did."""

    changed = Signal()
    ended = Signal(str)
    """Path of the folder that is whole now."""
    failed = Signal(str)
    """One sentence; what has come can be gone on with."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: dict[str, Download] = {}
        self._processes: dict[str, QProcess] = {}
        self._begun: dict[str, tuple[float, float]] = {}
        """Repository -> when its first byte came here, and the share that was there."""
        self._given_up: set[str] = set()
        self._ends: dict[str, Told] = {}

    def all(self) -> list[Download]:
        """Every download, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def look(self) -> None:
        """Find what was stopped earlier."""
        for model, come in unfinished():
            if model.repository not in self._processes:
                said = f"Stopped at {readable(come)} of {readable(model.size)}"
                share = come / max(1, model.size)
                self._known[model.repository] = Download(model.repository, said, share)
        self.changed.emit()

    def start(self, name: str) -> None:
        """Fetch a repository, or go on with it. Raises ModelError for what is no name."""
        repository = repository_of(name)
        if repository in self._processes:
            return
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        # It computes nothing.
        environment.insert("VELOXQUANT_OPENBLAS", "off")
        process.setProcessEnvironment(environment)
        process.readyReadStandardOutput.connect(lambda: self._heard(repository))
        process.finished.connect(lambda *_: self._over(repository))
        process.errorOccurred.connect(lambda error: self._broke(repository, error))
        self._processes[repository] = process
        before = self._known.get(repository)
        self._know(Download(repository, "Asking for it", before.share if before else None, is_running=True))
        program, *arguments = command(repository)
        process.start(program, arguments)

    def pause(self, repository: str) -> None:
        """Stop; what has come stays."""
        if repository in self._processes:
            self._processes[repository].terminate()

    def give_up(self, repository: str) -> None:
        """Stop, and remove what has come."""
        if repository in self._processes:
            self._given_up.add(repository)
            self._processes[repository].terminate()
        else:
            self._remove(repository)

    def close(self) -> None:
        """Pause all and wait for their ends."""
        for process in list(self._processes.values()):
            process.blockSignals(True)
            process.terminate()
            if not process.waitForFinished(_ENDS_MS):
                process.kill()
                process.waitForFinished(_ENDS_MS)
        self._processes.clear()

    # What a process says -----------------------------------------------------------------------

    def _heard(self, repository: str) -> None:
        process = self._processes.get(repository)
        last: Told | None = None
        while process is not None and process.canReadLine():
            told = read(bytes(process.readLine().data()))
            if told is not None and (told.folder or told.error):
                self._ends[repository] = told
            last = told or last
        if last is not None and last.words:
            said = last.words.replace(f" {repository}, ", " ") + self._left(repository, last.fraction)
            share = last.fraction if last.fraction is not None else self._known[repository].share
            self._know(Download(repository, said, share, is_running=True))

    def _left(self, repository: str, share: float | None) -> str:
        """The time that is left at the pace so far."""
        if share is None:
            return ""
        since, begun = self._begun.setdefault(repository, (time.monotonic(), share))
        spent = time.monotonic() - since
        if spent < _STEADY_SECONDS or share <= begun:
            return ""
        return f", {words.seconds(spent / (share - begun) * (1 - share))} left"

    def _broke(self, repository: str, error: QProcess.ProcessError) -> None:
        # After all other errors ``finished`` follows.
        if error == QProcess.ProcessError.FailedToStart:
            self._over(repository)

    def _over(self, repository: str) -> None:
        self._heard(repository)
        process = self._processes.pop(repository, None)
        end = self._ends.pop(repository, None)
        self._begun.pop(repository, None)
        if process is None:
            return
        asked = process.exitStatus() == QProcess.ExitStatus.CrashExit
        said = bytes(process.readAllStandardError().data()).decode("utf-8", "replace").strip()
        process.deleteLater()
        if repository in self._given_up:
            self._given_up.discard(repository)
            self._remove(repository)
        elif end is not None and end.folder:
            del self._known[repository]
            self.changed.emit()
            self.ended.emit(end.folder)
        else:
            # What has come, if anything has, is found on the disk.
            del self._known[repository]
            self.look()
            if end is not None:
                self.failed.emit(end.error)
            elif not asked:
                _log.warning("The download of %s ended: %s", repository, said)
                self.failed.emit(f"The download of {repository} broke off; the details are in the log.")

    def _remove(self, repository: str) -> None:
        try:
            forget(repository)
        except VeloxQuantError as error:
            self.failed.emit(str(error))
        self._known.pop(repository, None)
        self.changed.emit()

    def _know(self, download: Download) -> None:
        self._known[download.repository] = download
        self.changed.emit()
