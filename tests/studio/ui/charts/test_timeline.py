"""Which tokens and which moment the views show."""

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from studio.ui.charts.panel import ChartsPanel
from studio.ui.charts.timeline import LEAST, Timeline
from tests.studio.synthetic import history, plan, reply, snapshot
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, wheel
from veloxquant_mlx.steps import TokenStep


@pytest.fixture
def line() -> Timeline:
    made = Timeline()
    made.grow(1000)
    return made


def test_zooming_keeps_the_token_under_the_pointer_in_its_place(line: Timeline) -> None:
    line.zoom(0.5, 800, 1200)
    assert line.shown == (400, 1000) and line.live
    line.zoom(0.5, 700, 1200)
    assert line.shown == (550, 850)


def test_looking_away_from_the_newest_token_holds_the_moment(line: Timeline) -> None:
    line.zoom(0.2, 100, 1200)
    assert line.shown == (80, 320) and line.moment == 1000
    line.grow(1010)
    assert line.moment == 1000 and line.shown == (80, 320)
    line.go_live()
    assert line.live and line.shown is not None and line.shown[0] < 1010 < line.shown[1]


def test_live_the_stretch_goes_with_the_newest_token(line: Timeline) -> None:
    line.zoom(0.5, 1000, 1200)
    shown = line.shown
    line.grow(1040)
    assert shown is not None and line.shown == (shown[0] + 40, shown[1] + 40)


def test_nothing_leads_beyond_the_ends_or_below_the_closest_look(line: Timeline) -> None:
    line.zoom(1e-6, 600, 1200)
    assert line.shown is not None and line.shown[1] - line.shown[0] == LEAST
    line.move(-1e9, 1200)
    assert line.shown == (0, LEAST)
    line.move(1e9, 1200)
    assert line.shown == (1200 - LEAST, 1200)
    line.zoom(1e9, 1190, 1200)
    assert line.shown is None
    line.move(50, 1200)
    assert line.shown is None


def test_a_rewind_before_the_held_moment_shows_the_newest(line: Timeline) -> None:
    line.hold(900)
    line.grow(850)
    assert line.live


@pytest.fixture
def panel(show: Show) -> ChartsPanel:
    return show(history(((300, 200), (100, 300)), slots=6), plan(6))


def test_the_wheel_zooms_memory_and_token_map_together(panel: ChartsPanel) -> None:
    plot = panel.memory.plot
    before = at(plot, 600, 0).x()
    wheel(plot, 600, 120)
    shown = panel.timeline.shown
    assert shown is not None and panel.memory.shown == panel.token_map.shown == shown
    assert abs(at(plot, 600, 0).x() - before) <= 1
    drawn = panel.memory.drawn
    assert drawn is not None and drawn.tokens[0] == pytest.approx(shown[0]) and drawn.tokens[-1] == 900
    for _ in range(6):
        wheel(plot, 600, -120)
    assert panel.timeline.shown is None


def test_the_wheel_with_ctrl_looks_closer_upwards(panel: ChartsPanel) -> None:
    plot = panel.memory.plot
    high = plot.getViewBox().viewRange()[1][1]
    for _ in range(4):
        wheel(plot, 600, 120, Qt.KeyboardModifier.ControlModifier)
    assert plot.getViewBox().viewRange()[1][1] < 0.7 * high and panel.timeline.shown is None
    panel.moments.whole.click()
    assert plot.getViewBox().viewRange()[1][1] == high and not panel.moments.whole.isVisible()


def test_a_drag_moves_what_is_seen_by_as_much_as_the_hand(panel: ChartsPanel, qtbot: QtBot) -> None:
    plot = panel.memory.plot
    for _ in range(5):
        wheel(plot, 500, 120)
    first = panel.memory.shown[0]
    middle = at(plot, 500, 0) - QPoint(0, 40)
    qtbot.mousePress(plot.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    qtbot.mouseMove(plot.viewport(), middle + QPoint(20, 0))
    qtbot.mouseMove(plot.viewport(), middle + QPoint(60, 0))
    qtbot.mouseRelease(plot.viewport(), Qt.MouseButton.LeftButton, pos=middle + QPoint(60, 0))
    moved = first - panel.memory.shown[0]
    wide = panel.memory.shown[1] - panel.memory.shown[0]
    assert moved == pytest.approx(60 * wide / plot.inside()[0], rel=0.02)


def test_keys_zoom_move_and_lead_back(panel: ChartsPanel, qtbot: QtBot) -> None:
    view = panel.memory
    for key in (Qt.Key.Key_Plus,) * 5:
        qtbot.keyClick(view, key)
    zoomed = panel.timeline.shown
    assert zoomed is not None and panel.timeline.live
    qtbot.keyClick(view, Qt.Key.Key_Home)
    assert panel.memory.shown[0] == 0 and not panel.timeline.live
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert panel.memory.shown[0] == pytest.approx(0.1 * (zoomed[1] - zoomed[0]))
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert panel.memory.shown[0] == pytest.approx(0)
    qtbot.keyClick(view, Qt.Key.Key_End)
    assert panel.timeline.live and panel.memory.shown[0] < 900 < panel.memory.shown[1]
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert panel.timeline.shown is None and panel.memory.shown[0] == 0


def test_the_slider_shows_every_view_the_moment_that_was(panel: ChartsPanel, qtbot: QtBot) -> None:
    bar = panel.moments
    row = list(panel._history.columns()["tokens"]).index(420)  # type: ignore[union-attr]
    bar.slider.setValue(row)
    then = snapshot(420, 6)
    assert panel.timeline.moment == 420 and bar.words.text() == "token 420 of 900"
    assert not bar.live.isChecked()
    assert panel.memory.tip is not None and panel.memory.tip.resident == then.resident_bytes
    assert panel.layers.drawn["codes"].tolist() == [layer.counted.codes for layer in then.layers]
    assert panel.token_map.drawn is not None and panel.token_map.drawn.tokens == 420
    qtbot.keyClick(bar.slider, Qt.Key.Key_Right)
    assert panel.timeline.moment == 421
    bar.live.click()
    assert panel.timeline.live and panel.memory.tip.tokens == 900


def test_held_a_growing_history_leaves_the_views_where_they_are(panel: ChartsPanel) -> None:
    panel.timeline.hold(420)
    panel._history.append(TokenStep("a", 1, 301, snapshot(901, 6)))  # type: ignore[union-attr]
    panel.refresh()
    assert panel.memory.tip is not None and panel.memory.tip.tokens == 420
    assert panel.moments.words.text() == "token 420 of 901"


def test_the_switch_holds_the_newest_moment(panel: ChartsPanel) -> None:
    panel.moments.live.click()
    assert panel.timeline.moment == 900
    panel.refresh()
    assert panel.timeline.moment == 900


def test_a_rewind_in_the_middle_cuts_the_slider_and_the_views(panel: ChartsPanel) -> None:
    kept = panel._history
    assert kept is not None
    panel.timeline.hold(800)
    for step in reply(500, 40, 10, slots=6):
        kept.append(step)
    panel.refresh()
    assert panel.timeline.live and panel.moments.words.text() == "token 550 of 550"
    assert panel.memory.drawn is not None and panel.memory.drawn.tokens[-1] == 550
    panel.moments.slider.setValue(panel.moments.slider.maximum() - 1)
    assert panel.layers.drawn["codes"].tolist() == [c.counted.codes for c in snapshot(549, 6).layers]


def test_there_is_no_slider_before_there_are_two_moments(show: Show) -> None:
    assert not show(None).moments.isVisible()
    assert show(history()).moments.isVisible()


def test_show_all_is_offered_only_where_not_all_is_shown(panel: ChartsPanel) -> None:
    assert not panel.moments.whole.isVisible()
    panel.timeline.zoom(0.5, 500, 1000)
    assert panel.moments.whole.isVisible()
    panel.moments.whole.click()
    assert panel.timeline.shown is None and not panel.moments.whole.isVisible()
