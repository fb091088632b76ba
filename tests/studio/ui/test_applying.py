"""From the hand on a control to the cache of a real engine with a small model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QSlider
from pytestqt.qtbot import QtBot

from studio.core import session as session_module
from studio.ui import standing_row
from studio.ui.applying import Applying, Standing
from studio.ui.engine import Engine
from studio.ui.fields import ValueSlider
from studio.ui.window import MainWindow
from tests.studio.ui.conftest import METHODS
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import FakeEngine
from tests.studio.ui.test_form import drag
from tests.studio.ui.worker import LONG, Gate
from veloxquant_mlx import live as live_module
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import PrefillStep, TokenStep

SKVQ = KVCacheConfig("skvq", skvq_window=16)
ONE, TWO, THREE = (FakeConfig(fake_bits=bits) for bits in (1, 2, 3))


@pytest.fixture
def real(qtbot: QtBot, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MainWindow]:
    """A window whose engine has a thread, a model, and a reply of a few words behind it."""
    generate = live_module.generate
    monkeypatch.setattr(live_module, "generate", lambda *a, **k: generate(*a, **k | {"max_tokens": 12}))
    window = MainWindow(Engine())
    qtbot.addWidget(window)
    window.show()
    with qtbot.waitSignal(window.engine.methods_ready, timeout=LONG):
        window.start()
    window.cache.set_config(SKVQ)
    window.cache._settle()
    with qtbot.waitSignal(window.engine.loaded, timeout=LONG):
        window.opening.load(str(folder))
    qtbot.waitUntil(
        lambda: not window.engine.busy and window.applying.standing == Standing(SKVQ), timeout=LONG
    )
    say(qtbot, window, "word " * 60)
    yield window
    window.close()


def say(qtbot: QtBot, window: MainWindow, text: str) -> None:
    with qtbot.waitSignal(window.engine.finished, timeout=LONG):
        window.chat.prompt.set_text(text)
        qtbot.keyClick(window.chat.prompt.editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not window.engine.busy, timeout=LONG)


def bits(window: MainWindow) -> QSlider:
    control = window.cache._forms["skvq"].control("skvq_bits_key")
    assert isinstance(control, ValueSlider)
    return control.slider


def test_a_drag_ends_in_the_cache(qtbot: QtBot, real: MainWindow) -> None:
    assert real.flow.snapshot is not None
    before, tokens = real.flow.snapshot.counted, real.flow.snapshot.tokens
    marks = real.charts.history.turn_marks
    with qtbot.waitSignal(real.engine.configured, timeout=LONG) as told:
        drag(qtbot, bits(real), bits(real).value() / bits(real).maximum(), 1.0)
        assert real.cache.figures.bits.text() != "", "shown before anything is read"
    assert told.args[0].skvq_bits_key == 8
    qtbot.waitUntil(lambda: not real.engine.busy, timeout=LONG)
    after = real.flow.snapshot
    assert after.tokens == tokens and after.counted.codes > before.codes
    predicted = 3 * told.args[0].predict(tokens, real.cache.figures._shapes[0]).total  # type: ignore[index]
    assert after.counted.total == predicted, "what was predicted is what is counted"
    assert real.charts.history.turn_marks == marks and len(real.charts.history) > 3
    assert real.cache.row.words.text() == standing_row.IN_USE
    say(qtbot, real, "more")
    assert real.flow.snapshot.tokens > tokens


def test_cancel_keeps_the_cache(qtbot: QtBot, real: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    before, history = real.flow.snapshot, real.charts.history
    held = Gate(session_module.prefill, lambda step: isinstance(step, PrefillStep) and step.done < step.total)
    monkeypatch.setattr(session_module, "prefill", held)
    qtbot.keyClick(bits(real), Qt.Key.Key_End)
    qtbot.waitUntil(held.reached, timeout=LONG)
    qtbot.waitUntil(lambda: real.cache.row.bar.isVisible(), timeout=LONG)
    with qtbot.waitSignal(real.engine.cancelled, timeout=LONG):
        qtbot.mouseClick(real.cache.row.cancel_button, Qt.MouseButton.LeftButton)
        held.open()
    assert real.flow.snapshot is before and real.charts.history is history
    assert real.applying.standing == Standing(SKVQ)
    qtbot.waitUntil(lambda: not real.engine.busy, timeout=LONG)
    with qtbot.waitSignal(real.engine.configured, timeout=LONG):
        qtbot.mouseClick(real.cache.row.apply_button, Qt.MouseButton.LeftButton)
    assert real.cache.row.words.text() == standing_row.IN_USE


def test_a_setting_of_a_running_reply_comes_after_it(
    qtbot: QtBot, real: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Gate(live_module.generate, lambda step: isinstance(step, TokenStep))
    monkeypatch.setattr(live_module, "generate", held)
    real.send("hello")
    qtbot.waitUntil(held.reached, timeout=LONG)
    drag(qtbot, bits(real), 0.2, 1.0)
    assert real.cache.row.words.text() == standing_row.QUEUED
    assert real.applying.standing.in_use == SKVQ
    with qtbot.waitSignal(real.engine.configured, timeout=LONG) as told:
        held.open()
    assert told.args[0].skvq_bits_key == 8
    assert len(real.chat.shown()) == 4


def test_undo_leads_back_to_the_cache_before(qtbot: QtBot, real: MainWindow) -> None:
    before = real.flow.snapshot
    with qtbot.waitSignal(real.engine.configured, timeout=LONG):
        qtbot.keyClick(bits(real), Qt.Key.Key_End)
    qtbot.waitUntil(lambda: not real.engine.busy, timeout=LONG)
    with qtbot.waitSignal(real.engine.configured, timeout=LONG) as told:
        qtbot.mouseClick(real.cache.page.undo_button, Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert told.args == [SKVQ]
    assert before is not None and real.flow.snapshot is not None
    assert real.flow.snapshot.counted == before.counted


# The order of things, without a window -----------------------------------------------------------


@pytest.fixture
def held(engine: FakeEngine) -> Applying:
    """An engine that holds a conversation under ONE."""
    made = Applying(engine)
    made.ask(ONE)
    engine.holds = True
    return made


def told(engine: FakeEngine) -> list[object]:
    return [call[1] for call in engine.calls if call[0] == "configure"]


def test_what_is_in_use_is_not_told_again(held: Applying, engine: FakeEngine) -> None:
    held.ask(ONE)
    assert told(engine) == [ONE] and held.standing == Standing(ONE)


def test_back_to_what_is_in_use_stops_what_runs(held: Applying, engine: FakeEngine) -> None:
    held.ask(TWO)
    held.ask(ONE)
    assert engine.names()[-1] == "stop_applying" and held.standing == Standing(ONE, TWO, ONE)
    engine.cancelled.emit("cache")
    assert held.standing == Standing(ONE) and told(engine) == [ONE, TWO]


def test_what_was_read_before_the_stop_came_is_read_back(held: Applying, engine: FakeEngine) -> None:
    held.ask(TWO)
    held.ask(ONE)
    engine.configured.emit(TWO)
    assert told(engine) == [ONE, TWO, ONE] and held.standing == Standing(TWO, ONE)


def test_only_the_newest_of_many_is_told_after_a_reply(held: Applying, engine: FakeEngine) -> None:
    held.set_replying(True)
    for config in (TWO, THREE, TWO, THREE):
        held.ask(config)
    assert told(engine) == [ONE] and held.standing.queued == THREE
    held.set_replying(False)
    assert told(engine) == [ONE, THREE]


def test_a_failure_elsewhere_changes_nothing(held: Applying, engine: FakeEngine) -> None:
    held.ask(TWO)
    engine.failed.emit("export", "no", "")
    engine.cancelled.emit("models")
    assert held.standing == Standing(ONE, TWO)
    engine.failed.emit("cache", "no", "")
    assert held.standing == Standing(ONE)


def test_what_is_asked_for_again_after_a_cancel_is_not_lost(held: Applying, engine: FakeEngine) -> None:
    held.ask(TWO)
    held.cancel()
    held.ask(TWO)
    engine.cancelled.emit("cache")
    assert told(engine) == [ONE, TWO, TWO] and held.standing == Standing(ONE, TWO)
    held.ask(TWO)
    engine.configured.emit(TWO)
    assert told(engine) == [ONE, TWO, TWO] and held.standing == Standing(TWO)


def test_another_setting_stops_nothing_but_the_one_before(held: Applying, engine: FakeEngine) -> None:
    """A model may be on its way, or another answer side by side."""
    held.ask(TWO)
    held.ask(THREE)
    held.cancel()
    assert "stop" not in engine.names() and engine.names().count("stop_applying") == 2


def test_controls_nobody_moved_are_not_let_go(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    """Soon after the start another setting was asked for, and the panel's own came after it."""
    engine.play_ready(METHODS)
    engine.holds = True
    window.configure(THREE)
    qtbot.waitUntil(lambda: not window.cache._pause.isActive())
    assert window.applying.standing == Standing(FakeConfig.preset("Small"), THREE)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("ended_first", [True, False])
def test_whenever_it_is_asked_for_the_newest_is_in_use_at_last(
    held: Applying, engine: FakeEngine, whole: bool, ended_first: bool
) -> None:
    """TWO around the end of a reply; THREE while it runs, which has ended or was stopped in time."""
    held.set_replying(True)
    steps = [lambda: held.set_replying(False), lambda: held.ask(TWO)]
    for step in steps if ended_first else reversed(steps):
        step()
    assert held.standing == Standing(ONE, TWO)
    held.ask(THREE)
    held.forget()
    held.set_replying(False)
    if whole:
        engine.configured.emit(TWO)
    else:
        engine.cancelled.emit("cache")
    assert held.standing.running == THREE and held.standing.queued is None
    engine.configured.emit(THREE)
    assert held.standing == Standing(THREE) and told(engine) == [ONE, TWO, THREE]
