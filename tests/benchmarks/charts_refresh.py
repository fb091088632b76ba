"""How long the charts take to draw: 64 slots and 100,000 tokens of history, refreshed as a reply runs.

    QT_QPA_PLATFORM=offscreen python -m tests.benchmarks.charts_refresh [slots] [tokens]

Prints milliseconds for refreshing and painting both charts in two window sizes; the budget is 16 ms.
Processor time is the figure to compare on a machine that does other work too.
"""

import statistics
import sys
import time

from PySide6.QtWidgets import QApplication

from studio.core.history import History
from studio.ui.charts.panel import ChartsPanel
from studio.ui.theme import Scheme, apply_theme
from tests.studio.synthetic import plan, snapshot
from veloxquant_mlx.steps import TokenStep

REFRESHES = 100


def main() -> None:
    """Print the table."""
    slots = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    app = QApplication([])
    apply_theme(app, Scheme.Dark, 1.0)
    history = History()
    for count in range(1, tokens + 1):
        history.append(TokenStep("a", 1, count, snapshot(count, slots)))
    print(f"{slots} slots, {len(history):,} rows of history")
    for width, height in ((1280, 290), (2560, 400)):
        panel = ChartsPanel()
        panel.resize(width, height)
        panel.set_plan(plan(slots))
        panel.set_history(history)
        panel.show()
        app.processEvents()
        wall, cpu = [], []
        for _ in range(REFRESHES):
            tokens += 1
            history.append(TokenStep("a", 1, tokens, snapshot(tokens, slots)))
            began, used = time.perf_counter(), time.process_time()
            panel.refresh()
            app.processEvents()
            cpu.append(1000 * (time.process_time() - used))
            wall.append(1000 * (time.perf_counter() - began))
        for name, values in (("processor time", sorted(cpu)), ("wall time", sorted(wall))):
            print(
                f"{width}x{height} refresh and paint, {name}: median {statistics.median(values):.1f} ms, "
                f"95 % {values[int(0.95 * REFRESHES)]:.1f} ms, worst {values[-1]:.1f} ms"
            )
        panel.close()


if __name__ == "__main__":
    main()
