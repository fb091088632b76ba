"""Opens a window, loads, chats, stops, applies another setting, unloads and closes, over and over.

    python -m tests.benchmarks.cycles [cycles]

In a process of its own, on a tiny random model; the window is closed and reopened with every tenth cycle.
Prints the memory after a tenth of the cycles and at the end, the threads that are left, and the exit code.
Ends with an AssertionError where memory grew by more than 5 %, there are more threads of any kind than after
that tenth, one of Python's or the engine's is left at the end, or the exit code is not 0.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

MOST_GROWTH = 0.05
REOPENED = 10
"""Cycles of one window."""
_CHILD = "--child"
_TOLD = "CYCLES_TOLD"
"""Set in the environment, the memory is told as it goes."""
_ROUNDS, _ROUND_MS = 60_000, 5
"""How long something is waited for, in the process's own time: a machine may be busy with something else."""


def main() -> None:
    """Three hundred cycles by default."""
    if _CHILD in sys.argv:
        _child(int(sys.argv[2]), Path(sys.argv[3]))
        return
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"VELOXQUANT_HOME": home, "HOME": home, "QT_QPA_PLATFORM": "offscreen"}
        command = [sys.executable, "-m", "tests.benchmarks.cycles", _CHILD, str(cycles), home]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}"
    told = json.loads(done.stdout.splitlines()[-1])
    growth = told["after"] / told["before"] - 1
    print(
        f"{cycles} cycles in {told['seconds']:.0f} s: {told['before'] / 1e6:.1f} MB resident after "
        f"{told['warm']}, {told['after'] / 1e6:.1f} MB at the end ({growth:+.1%}), {told['left']} threads "
        f"left of {told['windows']} windows, exit code 0"
    )
    assert growth <= MOST_GROWTH, f"memory grew by {growth:.1%}"
    assert told["left"] == 0, "a thread is left"


def _child(cycles: int, home: Path) -> None:
    import psutil

    from studio.app import make_app, open_window
    from tests.tiny import tiny_folder

    folder = tiny_folder(home / "tiny")
    app = make_app(sys.argv[:1])
    process = psutil.Process()
    begun, warm = time.monotonic(), max(2, cycles // 10)
    before = threads = windows = 0
    window = None
    for cycle in range(cycles):
        if window is None:
            window, windows = open_window(app), windows + 1
        _cycle(window, folder)
        if (cycle + 1) % REOPENED == 0 or cycle + 1 == cycles:
            _close(window)
            window = None
        if _TOLD in os.environ and (cycle + 1) % REOPENED == 0:
            print(cycle + 1, f"{process.memory_info().rss / 1e6:.1f} MB", file=sys.stderr, flush=True)
        if cycle + 1 == warm:
            gc.collect()
            # Threads of libraries, as of the linear algebra, come with the first cycles and stay.
            before, threads = process.memory_info().rss, process.num_threads()
    gc.collect()
    more = max(0, process.num_threads() - threads)
    app.engine_thread.end()
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - begun, "warm": warm, "before": before, "windows": windows,
                "after": process.memory_info().rss,
                "left": more + app.engine_thread.isRunning() + threading.active_count() - 1,
            }
        )
    )  # fmt: skip


def _cycle(window: Any, folder: Path) -> None:
    from veloxquant_mlx.config import KVCacheConfig

    engine = window.engine
    _until(lambda: window.models.is_known)
    window.opening.load(str(folder))
    _until(lambda: engine.state == "idle" and window.top.model_chip.whole_text() == folder.name)
    window.new_chat()
    # Noted as they come: a random model may end its reply at the first token.
    states: list[str] = []
    engine.state_changed.connect(states.append)
    window.send("Why is the sky blue?")
    _until(lambda: "generating" in states)
    engine.state_changed.disconnect(states.append)
    window.stop()
    _until(lambda: engine.state == "idle" and not window.flow.active)
    other = next(
        KVCacheConfig(name)
        for name in ("svdq", "skvq")
        if KVCacheConfig(name) != window.applying.standing.in_use
    )
    window.configure(other)
    _until(lambda: window.applying.standing.in_use == other and engine.state == "idle")
    window.models.unload_button.click()
    _until(lambda: window.models.list.loaded is None and engine.state == "idle")


def _close(window: Any) -> None:
    from PySide6.QtCore import QCoreApplication, QEvent

    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def _until(reached: Any) -> None:
    """Let events come until something is reached."""
    from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QTimer

    for _ in range(_ROUNDS):
        if reached():
            return
        loop = QEventLoop()
        QTimer.singleShot(_ROUND_MS, loop.quit)
        loop.exec()
        # Outside of the application's own loop Qt leaves these for later.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    raise AssertionError("it was not reached in time")


if __name__ == "__main__":
    main()
