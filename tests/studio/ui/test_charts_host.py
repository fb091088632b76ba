"""The place of the charts while steps come: drawn at once, then with rests, and never left behind."""

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from studio.ui.charts_host import LONGEST_MS, SHORTEST_MS, ChartsHost
from studio.ui.pace import SHARED
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


def test_a_drawing_is_followed_by_a_rest_and_the_last_step_is_always_drawn(
    host: ChartsHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, spent = [1000.0], [5.0]
    monkeypatch.setattr("studio.ui.charts_host.time.monotonic", lambda: now[0])
    monkeypatch.setattr("studio.ui.pace.time.thread_time", lambda: spent[0])
    drawn: list[int] = []
    real = host.panel.refresh
    monkeypatch.setattr(host.panel, "refresh", lambda: (drawn.append(len(host.history)), real()))

    def look() -> int:
        host.append(next(steps))
        host.refresh()
        return len(drawn)

    steps = iter(reply(0, 300, 60, slots=3))
    assert look() == 0, "no token, nothing to see"
    assert look() == 1
    # What was drawn has been painted by the next look: the rest is in proportion to both.
    spent[0] += 0.01
    rest = 0.01 * SHARED
    assert SHORTEST_MS < 1000 * rest < LONGEST_MS
    assert look() == 1
    now[0] += 0.9 * rest
    spent[0] += 1
    assert look() == 1
    now[0] += 0.2 * rest
    assert look() == 2
    for step in steps:
        host.append(step)
        host.refresh()
    assert len(drawn) == 2
    host.settle()
    assert drawn[2:] == [len(host.history)]
    assert host.panel.memory.tip.tokens == 360
    # Nothing new, nothing drawn.
    now[0] += 60
    host.refresh()
    host.settle()
    assert len(drawn) == 3
    # Another conversation does not wait for the rest of the one before.
    host.clear()
    drawn.clear()
    host.append(TokenStep("a", 1, 1, snapshot(200, 3)))
    host.refresh()
    assert drawn == [1]


def test_a_view_that_was_saved_or_not_is_told_on(host: ChartsHost, qtbot: QtBot) -> None:
    host.append(TokenStep("a", 1, 1, snapshot(200, 3)))
    host.refresh()
    with qtbot.waitSignals([host.saved, host.save_failed]):
        host.panel.saved.emit("/tmp/x.png")
        host.panel.save_failed.emit("The picture x.png was not saved: no.")
