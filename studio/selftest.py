"""The app used once from end to end, with nobody at the keyboard: it proves itself and measures itself."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QEvent,
    QMessageLogContext,
    QObject,
    Qt,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)

from studio.app import App, make_app, open_window
from studio.core.network import watched_network
from studio.core.store import Store
from studio.first_window import age
from studio.ui.theme import Scheme
from studio.ui.window import MainWindow
from veloxquant_mlx.atomic import write_atomic
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.steps import FinishedStep

PROMPT = (
    "A model keeps the keys and values of every token it has read, so that the next token can look back "
    "at them. This memory grows with every token. A compressed cache keeps the newest tokens and the first "
    "few exactly as they were and turns all others into codes of two or three bits, in groups that share a "
    "scale and a zero point. The place where exact tokens end and codes begin is called the frontier; it "
    "moves on in whole steps of one window. Please explain in your own words, in several sentences, why a "
    "person who runs a language model at home would want this, what it can cost in the quality of the "
    "answers, and how one could measure that cost by comparing with the answers of an uncompressed cache "
    "on the same text."
)
CONTEXT_TOKENS = 300
"""The reply is stopped there: a long enough look at the app at work."""
CHATS = "chats.sqlite"
WRITTEN = ("report.json", "window.png", "timings.json", "proof.json")
TINY = "tiny-model"
"""The random model's folder, written where no real one is at hand."""
GAP_TICK_MS = 5
LIMIT_MS = 15 * 60 * 1000


class SelfTest(QObject):
    """Drives the window through load, one reply and export, and notes when things happened."""

    def __init__(self, app: App, window: MainWindow, folder: Path, started: float) -> None:
        super().__init__()
        self.app, self.window, self.folder, self.started = app, window, folder, started
        self.timings: dict[str, Any] = {"unit": "seconds unless named otherwise, measured"}
        self.problems: list[str] = []
        self.finished: FinishedStep | None = None
        self._last_tick: float | None = None
        self._gaps: list[float] = []
        self._used = (0.0, 0.0)
        """Processor time of this thread and of the whole process when the reply began."""
        self._pulse = QTimer(self)
        self._pulse.setTimerType(Qt.TimerType.PreciseTimer)
        self._pulse.setInterval(GAP_TICK_MS)
        self._pulse.timeout.connect(self._beat)
        self._limit = QTimer(self)
        self._limit.setSingleShot(True)
        self._limit.timeout.connect(lambda: self._end("the self-test took longer than 15 minutes"))
        self._limit.start(LIMIT_MS)
        window.installEventFilter(self)
        engine = window.engine
        engine.loaded.connect(self._on_loaded)
        engine.state_changed.connect(self._on_state)
        engine.finished.connect(self._on_finished)
        engine.exported.connect(self._on_exported)
        engine.failed.connect(lambda where, sentence, _: self._end(f"{where}: {sentence}"))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Note the first paint of the window."""
        if event.type() == QEvent.Type.Paint and "first_window" not in self.timings:
            self._note("first_window")
            self.timings["heavy_imports_before_window"] = [
                name for name in ("mlx_lm", "transformers", "mlx.core") if name in sys.modules
            ]
        return super().eventFilter(watched, event)

    def _note(self, what: str) -> None:
        self.timings[what] = round(time.perf_counter() - self.started, 3)

    def _on_loaded(self, _: Any) -> None:
        self._note("loaded")
        self.window.send(PROMPT)

    def _on_state(self, state: str) -> None:
        if state == "generating":
            self._note("first_token")
            self._last_tick = None
            self._used = (time.thread_time(), time.process_time())
            self._pulse.start()
        elif state == "idle":
            self._pulse.stop()

    def _beat(self) -> None:
        now = time.perf_counter()
        if self._last_tick is not None:
            self._gaps.append(now - self._last_tick)
        self._last_tick = now
        snapshot = self.window.flow.snapshot
        if snapshot is not None and snapshot.tokens >= CONTEXT_TOKENS:
            self.window.stop()

    def _on_finished(self, step: FinishedStep) -> None:
        self._pulse.stop()
        self._note("finished")
        self.finished = step
        screen, whole = time.thread_time() - self._used[0], time.process_time() - self._used[1]
        gaps = sorted(self._gaps)
        self.timings |= {
            "prompt_tokens": step.prompt_tokens,
            "reply_tokens": step.reply_tokens,
            "prefill_tokens_per_second": step.prefill_speed,
            "decode_tokens_per_second": step.decode_speed,
            "screen_share_of_processor_time": round(screen / whole, 4) if whole else None,
            "gui_ticks": len(gaps),
            "gui_gap_longest_ms": round(gaps[-1] * 1000, 1) if gaps else None,
            "gui_gap_99th_ms": round(gaps[int(len(gaps) * 0.99)] * 1000, 1) if gaps else None,
        }
        # The panels take the last step in with the next turn of the event loop.
        QTimer.singleShot(300, self._export)

    def _export(self) -> None:
        self.window.grab().save(str(self.folder / "window.png"))
        self.window.engine.export(str(self.folder / "report.json"), True, self.window.charts.take())

    def _on_exported(self, _: str) -> None:
        self._end(None)

    def _end(self, problem: str | None) -> None:
        if problem:
            self.problems.append(problem)
        self._limit.stop()
        self.window.close()
        self.app.quit()

    def verdict(self) -> list[str]:
        """What is wrong; empty when the app did what it should."""
        problems = list(self.problems)
        step = self.finished
        if step is None:
            problems.append("no reply was finished")
            return problems
        if not step.text.strip():
            problems.append("the reply is empty")
        if not step.snapshot.gauge("frontier"):
            problems.append("the flush frontier did not move")
        if step.snapshot.tokens < 200:
            problems.append(f"only {step.snapshot.tokens} tokens of context")
        # Behind the first window: it brings a schema and what reads it.
        from veloxquant_mlx.report.schema import validate_report

        try:
            validate_report(json.loads((self.folder / "report.json").read_text("utf-8")))
        except (OSError, ValueError) as error:
            problems.append(f"the report: {error}")
        if not (self.folder / "window.png").exists():
            problems.append("window.png was not written")
        return problems


@contextmanager
def _qt_faults() -> Iterator[list[str]]:
    """What Qt says about a look that it can't take; everything it says goes to standard error as ever."""
    said: list[str] = []

    def take(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if "Could not parse" in message:
            said.append(message)
        print(message, file=sys.stderr)

    before = qInstallMessageHandler(take)
    try:
        yield said
    finally:
        qInstallMessageHandler(before)


class _Uncaught(logging.Handler):
    """Keeps what the log calls critical: an error that nothing caught, such as a panel that can't open."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note the message with the last line of its traceback."""
        error = record.exc_info[1] if record.exc_info else None
        self.said.append(f"{record.getMessage()}: {error!r}" if error else record.getMessage())


def self_test(folder: Path, model: str | None, scheme: Scheme | None, started: float) -> int:
    """Run it; returns 0 only if everything is there and works, and nothing spoke with another machine.

    The window answers one prompt, which must move the frontier; then every method of the catalogue writes
    a few tokens. Writes ``report.json``, ``window.png``, ``timings.json`` and ``proof.json`` into ``folder``.

    Args:
        model: a model folder, a .gguf file or ``starter``; None is the starter model where it is there or
            can be fetched, else a tiny random one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = [CHATS + ending for ending in ("", "-wal", "-shm")]
        for name in (*WRITTEN, *kept):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        print(
            f"self-test: {folder} can't be written: {error.strerror}; choose another folder.", file=sys.stderr
        )
        return 1
    uncaught = _Uncaught()
    logging.getLogger().addHandler(uncaught)
    # Counted from the birth of the process: starting Python is waited for too.
    started = min(started, time.perf_counter() - age())
    with watched_network() as addresses, _qt_faults() as faults:
        app = make_app(sys.argv[:1], scheme)
        # Not the person's own: what is said here is no chat of theirs.
        window = open_window(app, None, scheme, Store(folder / CHATS))
        test = SelfTest(app, window, folder, started)
        opened: list[str] = []

        def open_model() -> None:
            opened.append(_chosen(model, folder))
            app.open_model(opened[0])

        window.engine.methods_ready.connect(open_model)
        app.exec()
        problems = test.verdict()
        if opened and Path(opened[0]).is_dir():
            problems += _prove(folder, Path(opened[0]))
    problems += [*uncaught.said, *faults]
    problems += [f"it spoke with {address}" for address in sorted(set(addresses))]
    record = test.timings | {"problems": problems, "platform": app.platformName()}
    try:
        write_atomic(folder / "timings.json", (json.dumps(record, indent=2) + "\n").encode())
    except (OSError, VeloxQuantError) as error:
        problems.append(f"timings.json: {error}")
    print(json.dumps(record, indent=2))
    for problem in problems:
        print(f"self-test: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _chosen(model: str | None, folder: Path) -> str:
    """The model to open; MLX has been imported by now."""
    from veloxquant_mlx.models.starter import StarterUnreachable, starter_model
    from veloxquant_mlx.models.tiny import tiny_model_folder

    if model is not None and model != "starter":
        return str(Path(model).expanduser().absolute())
    try:
        return str(starter_model())
    except StarterUnreachable:
        if model is not None:
            raise
        return str(tiny_model_folder(folder / TINY))


def _prove(folder: Path, model: Path) -> list[str]:
    """Everything that needs no window, written to ``proof.json``; returns what is wrong."""
    from studio.core.proof import prove

    try:
        record = prove(model, PROMPT)
        write_atomic(folder / "proof.json", (json.dumps(record, indent=2) + "\n").encode())
    except VeloxQuantError as error:
        return [f"proof: {error}"]
    return list(record["problems"])
