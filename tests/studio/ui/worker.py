"""Ways to hold the engine's thread at a known place, and to note what reaches the screen."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from PySide6.QtCore import QObject

from studio.core.request import Request
from studio.ui.engine import Engine, EngineThread
from veloxquant_mlx.prompt import Turn
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep, Step

LONG = 20_000
"""Milliseconds to wait for something that takes a few; only a failing test waits that long."""

SIGNALS = (
    "methods_ready", "models_found", "progress", "loaded", "unloaded", "plan_changed", "configured",
    "started", "dropped", "noted", "caches_told", "saving", "counted", "finished", "failed", "exported",
    "cancelled", "state_changed", "comparing", "compared", "tried", "finding", "answered",
)  # fmt: skip


class Notes(QObject):
    """Everything an engine tells, in order, with the thread it is told on."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self.threads: set[int] = set()
        for name in SIGNALS:
            getattr(engine, name).connect(self._noting(name))

    def _noting(self, name: str) -> Callable[..., None]:
        def note(*arguments: Any) -> None:
            self.threads.add(threading.get_ident())
            self.told.append((name, arguments))

        return note

    def names(self) -> list[str]:
        """Names of the signals so far."""
        return [name for name, _ in self.told]

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """What one signal told."""
        return [arguments for told, arguments in self.told if told == name]


class Speaker(Engine):
    """An engine that keeps the turns of one conversation, as the window does, so that tests only send."""

    def __init__(self, thread: EngineThread | None = None) -> None:
        super().__init__(thread=thread)
        self.turns: list[Turn] = []
        self.finished.connect(self._note_reply)
        self.failed.connect(self._take_back)

    def send(self, prompt: str) -> None:
        """Say something."""
        self.turns.append(("user", prompt))
        self.answer(Request("reply", tuple(self.turns), Sampling()))

    def regenerate(self) -> None:
        """Answer the last message once more."""
        while self.turns and self.turns[-1][0] == "assistant":
            self.turns.pop()
        self.answer(Request("regenerate", tuple(self.turns), Sampling()))

    def new_chat(self) -> None:
        """Begin anew."""
        self.turns.clear()
        super().new_chat()

    def _note_reply(self, step: FinishedStep) -> None:
        if step.text:
            self.turns.append(("assistant", step.text))

    def _take_back(self, where: str, _sentence: str, _details: str) -> None:
        if where == "chat" and self.turns and self.turns[-1][0] == "user":
            self.turns.pop()


class Gate:
    """Wraps ``generate``: once a step fits, the worker waits behind it until ``open`` is called."""

    def __init__(self, real: Callable[..., Iterator[Step]], fits: Callable[[Step], bool]) -> None:
        self.real = real
        self.fits = fits
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, *arguments: Any, **words: Any) -> Iterator[Step]:
        for step in self.real(*arguments, **words):
            yield step
            if self.fits(step) and not self._open.is_set():
                self._reached.set()
                if not self._open.wait(LONG / 1000):
                    raise TimeoutError("The test never opened the gate.")

    def reached(self) -> bool:
        """True when the worker waits."""
        return self._reached.is_set()

    def open(self) -> None:
        """Let the worker go on."""
        self._open.set()


def endless(*arguments: Any, stop: Callable[[], bool], **words: Any) -> Iterator[Step]:
    """In place of ``generate``: a reply that ends only when it is stopped (or fails after many steps)."""
    from veloxquant_mlx.cache.slot import snapshot
    from veloxquant_mlx.steps import TokenStep

    now = snapshot([])
    for count in range(1, 2_000_000):
        yield TokenStep("", 0, count, now)
        if stop():
            yield FinishedStep("stopped", "", 1, count, 0.1, 0.1, now)
            return
    raise AssertionError("Nobody stopped the reply.")
