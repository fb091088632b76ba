"""Where the window and its panels are, from one start to the next."""

import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtWidgets import QSplitter
from pytestqt.qtbot import QtBot

from studio.core.messages import StoreError
from studio.core.store import Store
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import FakeEngine


def sizes(window: MainWindow) -> dict[str, list[int]]:
    """Pixels of the panels on both sides of every handle."""
    return {splitter.objectName(): splitter.sizes() for splitter in window.findChildren(QSplitter)}


def opened(qtbot: QtBot, store: Store | None = None) -> MainWindow:
    made = MainWindow(FakeEngine(), store or Store())
    qtbot.addWidget(made)
    with qtbot.waitExposed(made):
        made.show()
    return made


def drag(qtbot: QtBot, splitter: QSplitter, by: QPoint) -> None:
    """Take the first handle and let it go elsewhere."""
    handle = splitter.handle(1)
    middle = handle.rect().center()
    qtbot.mousePress(handle, Qt.MouseButton.LeftButton, pos=middle)
    qtbot.mouseMove(handle, middle + by)
    qtbot.mouseRelease(handle, Qt.MouseButton.LeftButton, pos=middle + by)


def test_window_and_panels_open_where_they_were_left(qtbot: QtBot) -> None:
    first = opened(qtbot)
    drawn = sizes(first)
    # Not larger than the screen of tests: a window is never opened beyond its screen.
    first.resize(900, 640)
    for splitter in first.findChildren(QSplitter):
        across = splitter.orientation() == Qt.Orientation.Horizontal
        drag(qtbot, splitter, QPoint(40, 0) if across else QPoint(0, -30))
    left = sizes(first)
    assert left.keys() == drawn.keys() == {"columns", "stack", "rows"}
    assert all(left[name] != drawn[name] for name in left)
    first.close()
    second = opened(qtbot, Store(first.talk.store.path))
    assert sizes(second) == left and second.size() == QSize(900, 640)


@pytest.mark.parametrize(
    "kept",
    [
        "nowhere", {"window": "%%%", "panels": {"columns": [1, 2]}}, {"window": 7, "panels": []},
        {"panels": {"columns": [0, 0, 0], "stack": ["1", None], "rows": [-5, 10]}},
    ],
)  # fmt: skip
def test_what_was_kept_wrongly_is_left_out(qtbot: QtBot, kept: object) -> None:
    first = opened(qtbot)
    drawn = sizes(first), first.size()
    first.talk.store.set_setting("places", kept)
    second = opened(qtbot, Store(first.talk.store.path))
    assert (sizes(second), second.size()) == drawn


def test_a_store_that_can_t_be_read_or_written_leaves_the_window_as_drawn(
    qtbot: QtBot, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened(qtbot)

    def broken(*_: object) -> object:
        raise StoreError("The disk is full.")

    drawn = sizes(window)
    with caplog.at_level("WARNING"), monkeypatch.context() as patch:
        patch.setattr(window.talk.store, "setting", broken)
        patch.setattr(window.talk.store, "set_setting", broken)
        window.places.restore()
        window.places.keep()
    assert sizes(window) == drawn
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "The places of the panels are left out", "The places of the panels are not kept",
    ]  # fmt: skip
    caplog.clear()
