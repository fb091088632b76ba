"""When the engine starts, what the desktop may hand over, and what the self-test's clock counts."""

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from studio import app as app_module
from studio.first_window import age
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import STARTING, FakeEngine


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
    qtbot.waitUntil(lambda: engine.names() == STARTING)
    window.repaint()
    assert engine.names().count("start") == 1


def test_a_window_that_is_never_painted_starts_its_engine_too(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module._AfterPaint, "LONGEST_MS", 0)
    app_module._AfterPaint(window)
    qtbot.waitUntil(lambda: engine.names() == STARTING)


def test_the_clock_counts_from_the_birth_of_the_process() -> None:
    first = age()
    assert first >= 0
    assert age() >= first


def hand_over(path: str) -> None:
    """What macOS sends for a model that is dropped on the Dock icon or opened in the Finder."""
    QApplication.sendEvent(QApplication.instance(), QFileOpenEvent(QUrl.fromLocalFile(path)))


@pytest.mark.parametrize(
    ("path", "call"), [("/models/a b", "load"), ("/models/tiny.GGUF", "import_gguf")], ids=["folder", "gguf"]
)
def test_a_model_from_the_desktop_is_opened(
    qapp: app_module.App, window: MainWindow, engine: FakeEngine, path: str, call: str
) -> None:
    qapp.serve(window)
    engine.play_ready({})
    hand_over(path)
    assert (call, path) in engine.calls


def test_a_model_handed_over_before_the_window_waits_for_the_engine(
    qapp: app_module.App, window: MainWindow, engine: FakeEngine
) -> None:
    qapp._window = None
    hand_over("/models/early")
    qapp.serve(window)
    assert "load" not in engine.names()
    engine.play_ready({})
    assert ("load", "/models/early") in engine.calls
    assert engine.names().count("load") == 1


def test_a_busy_engine_is_not_disturbed(qapp: app_module.App, window: MainWindow, engine: FakeEngine) -> None:
    qapp.serve(window)
    engine.play_ready({})
    engine.busy = True
    hand_over("/models/other")
    assert "load" not in engine.names()
    assert "once the engine is done" in window.chat.notice.sentence
