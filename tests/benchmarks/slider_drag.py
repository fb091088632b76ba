"""How long a slider takes from the hand to the screen, in a whole window with a conversation in its charts.

    xvfb-run -a -s "-screen 0 1280x800x24" python -m tests.benchmarks.slider_drag [tokens]

Drags key bits and the window size of SKVQ to and fro over the starter model's shapes, one mouse move at a
time, and prints the milliseconds until the move, the prediction, the ghost and every repaint are done. The
budget is 16 ms at the median. Processor time is the figure to compare on a machine that does other work too.
"""

import os
import statistics
import sys
import tempfile
import time

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QSlider

from studio.ui.fields import ValueSlider
from studio.ui.theme import Scheme, apply_theme
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import MODELS, FakeEngine
from veloxquant_mlx.config import methods

CHANGES = 200
"""Moves that change the value; the others cost next to nothing."""


def main() -> None:
    """Print the table."""
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    with tempfile.TemporaryDirectory() as home:
        os.environ["VELOXQUANT_HOME"] = home
        app = QApplication([])
        apply_theme(app, Scheme.Dark, 1.0)
        engine = FakeEngine()
        window = MainWindow(engine)
        window.show()
        QTest.qWaitForWindowExposed(window)
        window.charts.load()
        engine.play_ready(methods())
        engine.models_found.emit(MODELS)
        engine.play_loaded()
        window.send("Why is the sky blue?")
        engine.started.emit("reply")
        engine.play_text("Because. " * 400, tokens)
        engine.play_finished("Because. " * 400)
        window.tick()
        app.processEvents()
        print(f"{app.platformName()}, {window.width()}x{window.height()}, {tokens:,} tokens of history")
        for name in ("skvq_bits_key", "skvq_window"):
            control = window.cache._forms["skvq"].control(name)
            assert isinstance(control, ValueSlider)
            _drag(app, control.slider, name)
            engine.play_reread()
        window.close()


def _drag(app: QApplication, slider: QSlider, name: str) -> None:
    y = slider.height() // 2
    at = 7 + round((slider.width() - 14) * slider.value() / slider.maximum())
    QTest.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPoint(at, y))
    wall, cpu, step = [], [], 0
    while len(wall) < CHANGES:
        # To and fro, two pixels a move.
        step += 1
        before, x = slider.value(), 7 + abs((2 * step) % (2 * (slider.width() - 14)) - (slider.width() - 14))
        began, used = time.perf_counter(), time.process_time()
        _move(slider, QPoint(x, y))
        app.processEvents()
        if slider.value() != before:
            cpu.append(1000 * (time.process_time() - used))
            wall.append(1000 * (time.perf_counter() - began))
    QTest.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=QPoint(x, y))
    for kind, spent in (("processor time", sorted(cpu)), ("wall time", sorted(wall))):
        print(
            f"{name}, {kind}: median {statistics.median(spent):.1f} ms, "
            f"95 % {spent[int(0.95 * CHANGES)]:.1f} ms, worst {spent[-1]:.1f} ms"
        )


def _move(widget: QSlider, at: QPoint) -> None:
    held = Qt.MouseButton.LeftButton
    place, globally = QPointF(at), QPointF(widget.mapToGlobal(at))
    event = QMouseEvent(
        QEvent.Type.MouseMove, place, globally, held, held, Qt.KeyboardModifier.NoModifier
    )  # fmt: skip
    QApplication.sendEvent(widget, event)


if __name__ == "__main__":
    main()
