"""A dressed application and the pieces most tests of the window need."""

import pytest
from pytestqt.qtbot import QtBot

from studio.ui.theme import Scheme, apply_theme
from studio.ui.window import MainWindow
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import MODELS, FakeEngine
from veloxquant_mlx.config import KVCacheConfig

METHODS: dict[str, type[KVCacheConfig]] = {FakeConfig.key(): FakeConfig}


@pytest.fixture(autouse=True)
def dressed(qapp) -> None:  # type: ignore[no-untyped-def]
    """Dark, at 100 %."""
    apply_theme(qapp, Scheme.Dark, 1.0)


@pytest.fixture
def engine() -> FakeEngine:
    """An engine that does nothing by itself."""
    return FakeEngine()


@pytest.fixture
def window(qtbot: QtBot, engine: FakeEngine) -> MainWindow:
    """A shown window whose engine has just started."""
    made = MainWindow(engine)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    qtbot.waitUntil(lambda: made.charts.panel is not None)
    return made


@pytest.fixture
def loaded(window: MainWindow, engine: FakeEngine) -> MainWindow:
    """A window with methods, a list of models and one of them loaded."""
    engine.play_ready(METHODS)
    engine.models_found.emit(MODELS)
    engine.play_loaded()
    return window
