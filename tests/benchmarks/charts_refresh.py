"""How long the views take to draw, and how much memory a history takes: 64 slots and 100,000 tokens.

    QT_QPA_PLATFORM=offscreen python -m tests.benchmarks.charts_refresh [slots] [tokens] [window]

Prints the memory of the history (measured as the growth of the process), and milliseconds for taking a step
in, for going back to a moment, and for refreshing and painting each tab in two window sizes while a reply
runs. The budgets are 120 MB and 16 ms. Processor time is the figure to compare on a machine that does other
work too.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QApplication

from studio.core.history import History
from studio.ui.charts.panel import ChartsPanel
from studio.ui.theme import Scheme, apply_theme
from tests.studio.synthetic import plan, snapshot
from veloxquant_mlx.steps import TokenStep

REFRESHES = 60


def resident() -> float:
    """MB of memory the process holds, or NaN where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text("utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS")), float("nan"))


def timed(name: str, what: Callable[[int], object], times: int = REFRESHES) -> None:
    """Print wall and processor time of something done several times."""
    wall, cpu = [], []
    for turn in range(times):
        began, used = time.perf_counter(), time.process_time()
        what(turn)
        cpu.append(1000 * (time.process_time() - used))
        wall.append(1000 * (time.perf_counter() - began))
    cpu.sort()
    wall.sort()
    print(
        f"{name}: processor {statistics.median(cpu):.1f} ms median, {cpu[int(0.95 * times)]:.1f} at 95 %; "
        f"wall {statistics.median(wall):.1f} median, {wall[-1]:.1f} worst"
    )


def main() -> None:
    """Print the table."""
    slots, tokens, window = (int(a) for a in (*sys.argv[1:4], *("64", "100000", "128")[len(sys.argv) - 1 :]))
    app = QApplication([])
    apply_theme(app, Scheme.Dark, 1.0)
    # What the first snapshots and the code itself take is no part of a history.
    warm = History()
    for count in range(1, 500):
        warm.append(TokenStep("a", 1, count, snapshot(count, slots, window=window, ranked=True)))
    history, before = History(), resident()
    for count in range(1, tokens + 1):
        shown = snapshot(count, slots, window=window, ranked=True)
        history.append(TokenStep("a", 1, count, shown, (f" {count}",)))
    print(f"{slots} slots, {len(history):,} rows, window {window}")
    print(f"history: {resident() - before:.1f} MB measured, {history.nbytes / 1e6:.1f} MB of figures counted")
    newest = [snapshot(tokens + n, slots, window=window, ranked=True) for n in range(1, 20 * REFRESHES)]
    steps = iter(TokenStep("a", 1, shown.tokens, shown, ("a",)) for shown in newest)
    timed("one step taken in", lambda _: history.append(next(steps)))
    timed("one moment looked up", lambda n: history.moment(1 + n * tokens // REFRESHES))
    for width, height in ((1280, 290), (2560, 400)):
        panel = ChartsPanel()
        panel.resize(width, height)
        panel.set_plan(plan(slots))
        panel.set_history(history)
        panel.show()
        app.processEvents()

        def refresh(_: int, panel: ChartsPanel = panel) -> None:
            history.append(next(steps))
            panel.refresh()
            app.processEvents()

        def scrub(turn: int, panel: ChartsPanel = panel) -> None:
            panel.moments.slider.setValue(turn * tokens // REFRESHES)
            app.processEvents()

        for index, title in enumerate(("Memory, Layers, Token map", "Layers", "Token map", "Rank")):
            panel.tabs.setCurrentIndex(index)
            panel.select(5)
            app.processEvents()
            timed(f"{width}x{height} {title}: refresh and paint", refresh)
        panel.tabs.setCurrentIndex(0)
        panel.timeline.zoom(0.02, tokens / 2, tokens)
        app.processEvents()
        timed(f"{width}x{height} zoomed: refresh and paint", refresh)
        panel.timeline.show_all()
        timed(f"{width}x{height} slider: move and paint", scrub)
        panel.close()


if __name__ == "__main__":
    main()
