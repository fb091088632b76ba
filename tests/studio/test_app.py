"""When the engine starts, and what the self-test's clock counts."""

import pytest
from pytestqt.qtbot import QtBot

from studio import app as app_module
from studio.selftest import _age
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import FakeEngine


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def window(qtbot: QtBot, engine: FakeEngine) -> MainWindow:
    made = MainWindow(engine)
    qtbot.addWidget(made)
    return made


def test_the_engine_starts_once_the_window_is_painted(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine
) -> None:
    app_module._AfterPaint(window)
    assert engine.names() == []
    with qtbot.waitExposed(window):
        window.show()
    qtbot.waitUntil(lambda: engine.names() == ["start", "keep_caches", "find_models"])
    window.repaint()
    assert engine.names().count("start") == 1


def test_a_window_that_is_never_painted_starts_its_engine_too(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module._AfterPaint, "LONGEST_MS", 0)
    app_module._AfterPaint(window)
    qtbot.waitUntil(lambda: engine.names() == ["start", "keep_caches", "find_models"])


def test_the_clock_counts_from_the_birth_of_the_process() -> None:
    first = _age()
    assert first >= 0
    assert _age() >= first
