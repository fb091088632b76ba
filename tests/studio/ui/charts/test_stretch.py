"""Which slots the views show."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from pytestqt.qtbot import QtBot

from studio.ui.charts.panel import ChartsPanel
from studio.ui.charts.save import drawing
from studio.ui.charts.stretch import LEAST_SLOTS, SlotStretch
from tests.studio.synthetic import history, plan, reply, snapshot
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, heights, picture, wheel
from veloxquant_mlx.steps import TokenStep

CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def slots() -> SlotStretch:
    made = SlotStretch()
    made.take(100)
    return made


@pytest.fixture
def panel(show: Show) -> ChartsPanel:
    return show(history(((300, 200),), slots=128, ranked=True), plan(128))


def test_zooming_keeps_the_slot_under_the_pointer_in_its_place(slots: SlotStretch) -> None:
    slots.zoom(0.5, 80)
    assert slots.shown == (40, 90)
    slots.zoom(1e-9, 60)
    assert slots.shown is not None and slots.shown[1] - slots.shown[0] == LEAST_SLOTS
    slots.move(1e9)
    assert slots.shown == (100 - LEAST_SLOTS, 100)
    slots.zoom(1e9, 50)
    assert slots.shown is None


def test_a_slot_is_shown_by_moving_as_little_as_can_be(slots: SlotStretch) -> None:
    slots.zoom(0.1, 0)
    for slot, shown in ((5, (0, 10)), (30, (21, 31)), (25, (21, 31)), (3, (3, 13))):
        slots.reveal(slot)
        assert slots.shown == shown


def test_another_model_shows_all_of_its_slots(slots: SlotStretch) -> None:
    slots.zoom(0.1, 50)
    slots.take(100)
    assert slots.shown is not None
    slots.take(30)
    assert slots.shown is None


def test_the_wheel_zooms_slots_in_every_view(panel: ChartsPanel) -> None:
    plot = panel.layers.findChild(object, "plot")
    for _ in range(8):
        wheel(plot, 90.5, 120)
    shown = panel.slots.shown
    assert shown is not None and shown[0] < 90 < shown[1] and shown[1] - shown[0] < 30
    assert panel.timeline.live and panel.timeline.shown is None
    (_, _), (top, bottom) = panel.token_map.plot.getViewBox().viewRange()
    assert (top, bottom) == pytest.approx(shown)
    for _ in range(3):
        wheel(panel.token_map.plot, 100, -120, CTRL)
    assert panel.slots.shown is not None and panel.slots.shown[1] - panel.slots.shown[0] > shown[1] - shown[0]
    panel.moments.whole.click()
    assert panel.slots.shown is None and not panel.moments.whole.isVisible()


def test_a_drag_moves_slots_and_tokens(panel: ChartsPanel, qtbot: QtBot) -> None:
    plot = panel.token_map.plot
    for _ in range(6):
        wheel(plot, 250, 120, CTRL)
        wheel(plot, 250, 120)
    slots, tokens = panel.slots.shown, panel.timeline.shown
    assert slots is not None and tokens is not None
    start = at(plot, sum(tokens) / 2, sum(slots) / 2)
    grip = plot.getViewBox().mapSceneToView(QPointF(plot.mapToScene(start)))
    qtbot.mousePress(plot.viewport(), Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(plot.viewport(), start + QPoint(20, 10))
    qtbot.mouseMove(plot.viewport(), start + QPoint(60, 40))
    qtbot.mouseRelease(plot.viewport(), Qt.MouseButton.LeftButton, pos=start + QPoint(60, 40))
    here = plot.getViewBox().mapSceneToView(QPointF(plot.mapToScene(start + QPoint(60, 40))))
    assert (here.x(), here.y()) == pytest.approx((grip.x(), grip.y()), rel=1e-3), "it stays under the hand"
    assert panel.selected is None, "a drag is no click"


def test_keys_zoom_around_the_picked_slot_and_it_stays_in_sight(panel: ChartsPanel, qtbot: QtBot) -> None:
    for tab, view in ((1, panel.layers), (3, panel.rank)):
        panel.tabs.setCurrentIndex(tab)
        panel.select(60)
        for _ in range(10):
            qtbot.keyClick(view, Qt.Key.Key_Plus)
        shown = panel.slots.shown
        assert shown is not None and shown[0] < 60 < shown[1]
        qtbot.keyClick(view, Qt.Key.Key_End)
        assert panel.selected == 127 and panel.slots.shown is not None and panel.slots.shown[1] == 128
        qtbot.keyClick(view, Qt.Key.Key_Minus)
        assert panel.slots.shown[1] - panel.slots.shown[0] > shown[1] - shown[0]
        qtbot.keyClick(view, Qt.Key.Key_0)
        assert panel.slots.shown is None


def test_zoomed_what_is_painted_is_what_was_fed(panel: ChartsPanel) -> None:
    panel.tabs.setCurrentIndex(1)
    plot = panel.layers.findChild(object, "plot")
    for _ in range(12):
        wheel(plot, 64, 120)
    image = picture(plot)
    slot = 64
    seen = heights(image, at(plot, slot + 0.45, 0.01).x())
    pixels = at(plot, 0, 0).y() - at(plot, 0, 1).y()
    for kind in ("codes", "exact"):
        fed = float(panel.layers.drawn[kind][slot]) / 1e6 * pixels
        assert seen[kind] == pytest.approx(fed, abs=2)
    left = at(plot, panel.slots.shown[0], 0.01).x() if panel.slots.shown else 0
    assert not heights(image, left - 8), "nothing stands left of the axis"


def test_a_drawing_of_a_stretch_has_no_shape_outside(panel: ChartsPanel) -> None:
    panel.tabs.setCurrentIndex(1)
    whole = drawing(panel.layers, None).count(b"<rect")
    for _ in range(12):
        wheel(panel.layers.findChild(object, "plot"), 64, 120)
    assert panel.slots.shown is not None
    share = (panel.slots.shown[1] - panel.slots.shown[0]) / 128
    assert 0 < drawing(panel.layers, None).count(b"<rect") < 2 * share * whole


def test_going_on_the_stretch_stays(panel: ChartsPanel) -> None:
    panel.slots.zoom(0.1, 64)
    shown = panel.slots.shown
    kept = panel._history
    assert kept is not None
    for step in reply(500, 10, 20, slots=128):
        kept.append(step)
    panel.refresh()
    assert panel.slots.shown == shown
    kept.append(TokenStep("a", 1, 9, snapshot(900, 3)))
    panel.refresh()
    assert panel.slots.shown is None and np.isfinite(panel.layers.drawn["codes"]).all()
