"""The place of the charts while steps come: drawn at once, then with rests, and never left behind."""

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from studio.ui.charts_host import ChartsHost
from tests.studio.synthetic import plan, reply, snapshot
from veloxquant_mlx.steps import TokenStep


@pytest.fixture
def host(qtbot: QtBot) -> Iterator[ChartsHost]:
    made = ChartsHost()
    qtbot.addWidget(made)
    made.resize(1280, 290)
    made.set_plan(plan(3))
    made.show()
    qtbot.waitUntil(lambda: made.panel is not None)
    yield made


def test_the_last_step_is_always_drawn_but_not_every_one(
    host: ChartsHost, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine, the rest ends before the test does.
    monkeypatch.setattr("studio.ui.charts_host.LONGEST_REST_MS", 400)
    drawn: list[int] = []
    real = host.panel.refresh
    monkeypatch.setattr(host.panel, "refresh", lambda: (drawn.append(len(host.history)), real()))
    steps = list(reply(0, 300, 60, slots=3))
    for step in steps:
        host.append(step)
        host.refresh()
    rows = len(host.history)
    assert drawn == [1]
    qtbot.waitUntil(lambda: drawn == [1, rows])
    assert host.panel.memory.tip.tokens == 360
    # Nothing new: the rest ends without another drawing.
    qtbot.waitUntil(lambda: not host._rest.isActive())
    assert drawn == [1, rows]


def test_a_view_that_was_saved_or_not_is_told_on(host: ChartsHost, qtbot: QtBot) -> None:
    host.append(TokenStep("a", 1, 1, snapshot(200, 3)))
    host.refresh()
    with qtbot.waitSignals([host.saved, host.save_failed]):
        host.panel.saved.emit("/tmp/x.png")
        host.panel.save_failed.emit("The picture x.png was not saved: no.")
