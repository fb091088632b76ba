"""The Qt handle on a session that lives on its own thread. The only file that knows threads.

Commands go down as queued signals; steps come up through a deque that the window's timer drains; rare
events are signals of the Engine. MLX's streams belong to the thread that made them, so the model is
loaded, used and dropped on one worker thread, which lives as long as the app.
"""

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QCoreApplication, QEventLoop, QObject, QThread, Signal, SignalInstance, Slot

from studio.core.keeping import KeptReply
from studio.core.request import Request
from studio.ui.edge import edge
from studio.ui.events import Events
from studio.ui.garbage import collecting_nothing
from studio.ui.idle_work import IdleWork
from studio.ui.keeper import CacheKeeper
from veloxquant_mlx.errors import Cancelled, VeloxQuantError
from veloxquant_mlx.progress import Progress
from veloxquant_mlx.steps import FinishedStep, Step, TokenStep

if TYPE_CHECKING:
    from studio.core.session import Session

SOON_MS = 300
"""How long a window that closes stands still before it says why."""


@dataclass(frozen=True, slots=True)
class _Export:
    path: str
    with_transcript: bool
    taken: Any


class EngineThread(QThread):
    """Where engines work that follow one another.

    MLX keeps threads of its own for each thread that ever computed, also for one that has ended: windows
    that are opened and closed again would leave some more each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("engine")

    def end(self) -> None:
        """Wait until it has ended; every engine on it is closed by then."""
        self.quit()
        self.wait()


class _Worker(Events):
    """Runs on the worker thread. Imports MLX there, after the first window is on the screen."""

    ended = Signal()
    _edge = edge

    def __init__(self) -> None:
        super().__init__()
        self.steps: deque[Step] = deque()
        self.exports: deque[_Export] = deque()
        self.has_ended = threading.Event()
        self._session: Session | None = None
        self._home = self.thread()
        self._opened: dict[Path, None] = {}
        self._keeper = CacheKeeper(self)
        self._keeper.noted.connect(self.noted)
        self._keeper.saving.connect(self.saving)
        self._keeper.told.connect(self.caches_told)
        self._idle = IdleWork(self)
        self.wished = self._idle.wished
        for told in ("comparing", "compared", "tried", "finding", "noted"):
            getattr(self._idle, told).connect(getattr(self, told))

    @Slot()
    def prepare(self) -> None:
        """Import what is heavy and tell the catalogue of methods."""
        with self._edge("cache", "starting the engine"):
            from studio.core.session import Session
            from veloxquant_mlx.config import DEFAULT_METHOD, KVCacheConfig, methods

            known = methods()
            self._session = Session(KVCacheConfig(DEFAULT_METHOD))
            self._idle.hear(self._session)
            self.methods_ready.emit(known)
        self.state_changed.emit("idle")

    @Slot(object)
    def find(self, more: Sequence[str] = ()) -> None:
        with self._edge("models", "looking for models"):
            from veloxquant_mlx.models.find import find_models
            from veloxquant_mlx.planning import this_machine

            self._opened |= dict.fromkeys(map(Path, more))
            self.machine_told.emit(this_machine())
            self.models_found.emit(find_models(list(self._opened)))

    @Slot(str, bool, object)
    def load(self, path: str, anyway: bool, stop: threading.Event) -> None:
        def work(session: "Session", progress: Progress) -> None:
            self._opened[Path(path)] = None
            self.loaded.emit(session.load(Path(path), progress, anyway=anyway))

        self._long("models", "loading the model", work, stop)

    @Slot(object)
    def fetch_starter(self, stop: threading.Event) -> None:
        def work(session: "Session", progress: Progress) -> None:
            from veloxquant_mlx.models.starter import starter_model

            folder = starter_model(progress)
            self.loaded.emit(session.load(folder, progress))

        self._long("models", "fetching the starter model", work, stop)
        self.find()

    @Slot(str, object)
    def import_gguf(self, path: str, stop: threading.Event) -> None:
        def work(session: "Session", progress: Progress) -> None:
            from veloxquant_mlx.models.gguf import import_gguf

            folder = import_gguf(Path(path), progress=progress)
            self.loaded.emit(session.load(folder, progress))

        self._long("models", "importing the file", work, stop)
        self.find()

    @Slot()
    def unload(self) -> None:
        with self._edge("models", "unloading the model"), self._idle.ending():
            self._keeper.save()
            self._ready().unload()
            self.unloaded.emit()

    @Slot(object, object)
    def configure(self, config: Any, stop: threading.Event) -> None:
        rereads = False
        with self._edge("cache", "applying the cache setting"), self._idle.pausing():
            session = self._ready()
            rereads = bool(session.held) and config != session.config
            if rereads:
                self.state_changed.emit("rereading")
                self.started.emit("reread")
                self._hand_on(session.reread(config, stop=stop.is_set), lambda _: self._idle.between())
            plan = session.configure(config)
            if plan is not None:
                self.plan_changed.emit(plan)
            self.configured.emit(config)
        if rereads:
            self._keeper.grew()
            self.state_changed.emit("idle")

    @Slot()
    def new_chat(self) -> None:
        with self._edge("chat", "starting a new chat"), self._idle.ending():
            self._keeper.leave(self._ready())

    @Slot(object, object)
    def answer(self, request: Request, stop: threading.Event) -> None:
        with (
            self._edge("chat", "writing the reply"), self._idle.pausing(request.message),
            KeptReply(request) as kept,
        ):  # fmt: skip
            steps = self._begun(request, stop)
            if steps is None:
                return
            self.state_changed.emit("prefill")
            self.started.emit(request.kind)
            self._hand_on(steps, kept.take)
        self._keeper.grew()
        self.state_changed.emit("idle")

    @Slot(object, object)
    def limit_memory(self, cache: int, wired: int) -> None:
        with self._edge("models", "setting MLX's memory limits"):
            from veloxquant_mlx.models.compute import limit_memory

            limit_memory(cache, wired)

    @Slot(object, object, object, object)
    def side_by_side(self, turns: Any, configs: Any, sampling: Any, stop: threading.Event) -> None:
        with self._edge("side", "answering side by side"), self._idle.pausing():
            from studio.core.side_by_side import side_by_side

            self.state_changed.emit("side")
            if (model := self._ready().model) is not None:
                for answer in side_by_side(model, turns, configs, sampling, stop=stop.is_set):
                    self.answered.emit(answer)
        self.answered.emit(None)
        self.state_changed.emit("idle")

    @Slot(bool)
    def compare(self, on: bool) -> None:
        self._idle.compare(on)

    @Slot()
    def try_setting(self) -> None:
        self._idle.try_setting()

    @Slot(object)
    def find_smallest(self, limit: float | None) -> None:
        self._idle.find_smallest(limit)

    @Slot(object, object)
    def keep_caches(self, store: Path | None, limit: int) -> None:
        self._keeper.use(store, limit)

    @Slot()
    def remove_caches(self) -> None:
        self._keeper.tidy(0)

    @Slot(object, str)
    def count(self, key: object, text: str) -> None:
        with self._edge("attach", "counting tokens"):
            from veloxquant_mlx.prompt import encode_text

            if self._session is not None and self._session.model is not None:
                self.counted.emit(key, len(encode_text(self._session.model.tokenizer, text)))

    @Slot()
    def close(self) -> None:
        """Drop the model on the thread that loaded it, then leave the thread to others."""
        with self._edge("models", "closing"):
            if self._session is not None:
                self._idle.stop()
                self._keeper.save()
                # Also files of chats that were deleted for good.
                self._keeper.tidy()
                self._session.unload()
        self.ended.emit()
        # Only where it lives may it be destroyed.
        self.moveToThread(self._home)
        self.has_ended.set()

    @Slot()
    def serve_exports(self) -> None:
        """Write the reports asked for; also called between the tokens of a reply."""
        while self.exports:
            wanted = self.exports.popleft()
            with self._edge("export", "writing the report"):
                from studio.core.export import export_report
                from studio.ui.report_pages import pdf

                export_report(
                    self._ready(), Path(wanted.path), wanted.taken,
                    with_transcript=wanted.with_transcript, printer=pdf,
                )  # fmt: skip
                self.exported.emit(wanted.path)

    def _begun(self, request: Request, stop: threading.Event) -> Iterator[Step] | None:
        """The steps of a reply; None where the person is asked first, and nothing is touched yet."""
        from studio.core.fitting import fitted
        from studio.core.manners import weigh
        from studio.core.session import Message

        session = self._ready()
        model = session.require_model()
        said = fitted(model, request.turns, drop=request.drop)
        # Nobody is asked about what was stopped while it waited.
        limit = 0 if stop.is_set() else request.limit
        if (excess := weigh(model, session.config, len(said.tokens), limit / 100)) is not None:
            self.over_limit.emit(request, excess)
            return None
        self._keeper.enter(session, request, lambda: self.state_changed.emit("resuming"))
        if said.gone:
            self.dropped.emit(said.gone)
        messages = [Message(role, text) for role, text in said.turns]  # type: ignore[arg-type]
        return session.answer(messages, said.tokens, sampling=request.sampling, stop=stop.is_set)

    def _hand_on(self, steps: Iterator[Step], keep: Callable[[Step], None] = lambda _: None) -> None:
        """Put each step where the window takes it from; the steps end here whatever happens."""
        writing = False
        with contextlib.closing(steps):  # type: ignore[type-var]
            for step in steps:
                # On disk before it is on the screen.
                keep(step)
                self.steps.append(step)
                if not writing and isinstance(step, TokenStep):
                    writing = True
                    self.state_changed.emit("generating")
                if isinstance(step, FinishedStep):
                    self.finished.emit(step)
                elif self.exports:
                    # Not at the end: the reply joins the conversation just after its last step.
                    self.serve_exports()

    def _long(
        self, where: str, doing: str, work: Callable[["Session", Progress], None], stop: threading.Event
    ) -> None:
        """Run work that tells its progress and can be cancelled."""

        def progress(share: float | None, words: str) -> None:
            if stop.is_set():
                raise Cancelled
            self.progress.emit(share, words)

        self.state_changed.emit("loading")
        with self._edge(where, doing), self._idle.ending():
            session = self._ready()
            self._keeper.save()
            had_model = session.model is not None
            try:
                work(session, progress)
            finally:
                if had_model and session.model is None:
                    self.unloaded.emit()
        self.state_changed.emit("idle")

    def _ready(self) -> "Session":
        if self._session is None:
            raise VeloxQuantError("The engine could not start; see the log, then start the app again.")
        return self._session


class Engine(Events):
    """Commands return at once; everything is answered through signals on the GUI thread."""

    _prepare = Signal()
    _find = Signal(object)
    _load = Signal(str, bool, object)
    _fetch = Signal(object)
    _import = Signal(str, object)
    _unload = Signal()
    _configure = Signal(object, object)
    _new_chat = Signal()
    _answer = Signal(object, object)
    _count = Signal(object, str)
    _compare = Signal(bool)
    _limit_memory = Signal(object, object)
    _side_by_side = Signal(object, object, object, object)
    _try = Signal()
    _find_smallest = Signal(object)
    _keep_caches = Signal(object, object)
    _remove_caches = Signal()
    _exports = Signal()
    _close = Signal()

    def __init__(self, parent: QObject | None = None, thread: EngineThread | None = None) -> None:
        """``thread`` None: one of its own, which ends with it."""
        super().__init__(parent)
        self.state = "starting"
        self._stops: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        """The stops of jobs that wait or run; the worker lets go of those it is done with."""
        self._applying = threading.Event()
        self._thread, self._is_own = thread or EngineThread(), thread is None
        self._worker = _Worker()
        self._worker.moveToThread(self._thread)
        worker = self._worker
        self._commands: Sequence[tuple[SignalInstance, Callable[..., None]]] = (
            (self._prepare, worker.prepare), (self._find, worker.find), (self._load, worker.load),
            (self._fetch, worker.fetch_starter), (self._import, worker.import_gguf),
            (self._unload, worker.unload), (self._configure, worker.configure),
            (self._new_chat, worker.new_chat), (self._answer, worker.answer),
            (self._count, worker.count), (self._exports, worker.serve_exports),
            (self._keep_caches, worker.keep_caches), (self._remove_caches, worker.remove_caches),
            (self._compare, worker.compare), (self._limit_memory, worker.limit_memory),
            (self._try, worker.try_setting), (self._find_smallest, worker.find_smallest),
            (self._side_by_side, worker.side_by_side), (self._close, worker.close),
        )  # fmt: skip
        for command, slot in self._commands:
            command.connect(slot)
        # Signal to signal: a plain method would be called on the worker thread, even when queued.
        for name in (name for name, value in vars(Events).items() if isinstance(value, Signal)):
            getattr(worker, name).connect(getattr(self, name))
        self.state_changed.connect(self._note_state)

    def start(self) -> None:
        """Begin: the catalogue of methods arrives with ``methods_ready``. Connect everything before."""
        self._thread.start()
        self._prepare.emit()

    @property
    def busy(self) -> bool:
        """True while a reply, a load, an import or reading again runs."""
        return self.state not in ("idle", "starting")

    def find_models(self, more: Sequence[str] = ()) -> None:
        """Look for models on disk, also at ``more`` paths; answered by ``machine_told``,
        ``models_found``."""
        self._find.emit(list(more))

    def load(self, path: str, anyway: bool = False) -> None:
        """Load a model folder, ``anyway`` also where memory seems too small; answered by ``progress`` and
        ``loaded``. What runs is stopped first."""
        self.stop()
        self._load.emit(path, anyway, self._fresh_stop())

    def fetch_starter(self) -> None:
        """Get the starter model, once, and load it. What runs is stopped first."""
        self.stop()
        self._fetch.emit(self._fresh_stop())

    def import_gguf(self, path: str) -> None:
        """Convert a .gguf file into a model folder and load it. What runs is stopped first."""
        self.stop()
        self._import.emit(path, self._fresh_stop())

    def unload(self) -> None:
        """Give the model's memory back; a running reply is stopped first."""
        self.stop()
        self._unload.emit()

    def configure(self, config: Any) -> None:
        """Use another cache setting; answered by ``configured``.

        Where a conversation is held it is read again: ``started``, steps, then ``configured``, or
        ``cancelled`` or ``failed``, after which the setting before is still in use.
        """
        self._applying = self._fresh_stop()
        self._configure.emit(config, self._applying)

    def stop_applying(self) -> None:
        """Stop applying the setting told last; whatever else waits or runs goes on."""
        self._applying.set()

    def new_chat(self) -> None:
        """Forget the conversation; a running reply is stopped first."""
        self.stop()
        self._new_chat.emit()

    def answer(self, request: Request) -> None:
        """Answer a conversation; answered by ``started``, steps and ``finished``, or ``failed``."""
        self._answer.emit(request, self._fresh_stop())

    def count(self, key: object, text: str) -> None:
        """Count the tokens of a text; answered by ``counted`` where a model is loaded, else by nothing."""
        self._count.emit(key, text)

    def limit_memory(self, cache: int, wired: int) -> None:
        """Bytes that MLX may keep for reuse, and hold resident on a GPU; 0 is none."""
        self._limit_memory.emit(cache, wired)

    def compare(self, on: bool) -> None:
        """Compare replies with the uncompressed cache from now on, whenever nothing else is to be done;
        answered by ``comparing`` and ``compared``."""
        self._compare.emit(on)

    def side_by_side(self, turns: Any, configs: Any, sampling: Any) -> None:
        """Answer turns through several settings, one after the other; answered by ``answered``. The
        conversation stays as it is."""
        self._side_by_side.emit(turns, configs, sampling, self._fresh_stop())

    def try_setting(self, config: Any) -> None:
        """Try a setting on the conversation whenever nothing else is to be done, or between the blocks of one
        read again; answered by ``tried``. None tries nothing any more."""
        self._worker.wished.append(config)
        self._try.emit()

    def find_smallest(self, limit: float | None) -> None:
        """Look for the smallest setting under a KL, nats per token; answered by ``finding``. None ends it."""
        self._find_smallest.emit(limit)

    def keep_caches(self, store: Path | None, limit: int) -> None:
        """Save the caches of chats beside ``store`` from now on, at most ``limit`` bytes of them all; None
        saves none. Answered by ``caches_told``."""
        self._keep_caches.emit(store, limit)

    def remove_caches(self) -> None:
        """Remove all saved caches, after what runs; answered by ``caches_told``."""
        self._remove_caches.emit()

    def stop(self) -> None:
        """Stop the running reply, or cancel loading, importing or reading again; looked at between tokens
        and blocks."""
        for stop in list(self._stops):
            stop.set()

    def export(self, path: str, with_transcript: bool, taken: Any) -> None:
        """Write a memory report of what was ``Taken``, also while a reply runs."""
        self._worker.exports.append(_Export(path, with_transcript, taken))
        self._exports.emit()

    def drain(self) -> list[Step]:
        """Steps that came since the last call, oldest first."""
        steps = []
        with contextlib.suppress(IndexError):
            while True:
                steps.append(self._worker.steps.popleft())
        return steps

    def close(self, lasting: Callable[[], None] = lambda: None) -> None:
        """Stop whatever runs, give the model back and wait for that; no command does anything afterwards.

        ``lasting`` is called where that takes longer, as for a large cache to be saved; the screen is then
        still drawn, but takes no more clicks and keys.
        """
        if not self._commands:
            return
        ended = QEventLoop()
        self._worker.ended.connect(ended.quit)
        self.stop()
        self._close.emit()
        with collecting_nothing():
            for command, slot in self._commands:
                command.disconnect(slot)
        self._commands = ()
        if self._thread.isRunning() and not self._worker.has_ended.wait(SOON_MS / 1000):
            lasting()
            ended.exec(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)
        if self._is_own:
            self._thread.end()
        # What the worker told last, as the end of a reply, is heard before this returns.
        QCoreApplication.sendPostedEvents(self)

    def _fresh_stop(self) -> threading.Event:
        # One event per job: a stop meant for the last job must not reach the next, nor be undone by it.
        stop = threading.Event()
        self._stops.add(stop)
        return stop

    @Slot(str)
    def _note_state(self, state: str) -> None:
        self.state = state
