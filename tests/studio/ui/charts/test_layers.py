import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QLabel, QToolTip
from pytestqt.qtbot import QtBot

from studio.core.history import History
from studio.ui.charts.figures import fine
from studio.ui.charts.ink import STACK
from studio.ui.charts.layers import PICK, PROMISE
from studio.ui.charts.meanings import PLACES
from studio.ui.charts.panel import ChartsPanel
from studio.ui.charts.plot import QuietPlot
from studio.ui.charts.scene import WAITING
from studio.ui.charts.slot_detail import PICK as PICK_ALONE
from tests.studio.synthetic import history, plan, snapshot
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, heights, picture
from veloxquant_mlx.config import methods
from veloxquant_mlx.steps import TokenStep
from veloxquant_mlx.telemetry import KIND_LABELS

FOREIGN = frozenset({0, 2, 3})
METHODS = methods()


def slot_middle(panel: ChartsPanel, slot: int) -> QPoint:
    """Where a slot's column is inside the plot's viewport."""
    plot = panel.layers.findChild(object, "plot")
    at = plot.getViewBox().mapViewToScene(QPointF(slot + 0.5, 0.01))
    return plot.mapFromScene(at)


@pytest.mark.parametrize("slots", [1, 30, 128])
def test_what_is_drawn_is_what_was_fed_kind_by_kind(show: Show, slots: int) -> None:
    foreign = FOREIGN if slots > 4 else frozenset()
    kept = history(((300, 90),), slots=slots, foreign=foreign)
    panel = show(kept, plan(slots, foreign))
    drawn = panel.layers.drawn
    assert kept.snapshot is not None
    for slot, layer in enumerate(kept.snapshot.layers):
        assert {kind: int(drawn[kind][slot]) for kind in STACK} == layer.counted.as_dict()
        assert drawn["resident"][slot] == layer.resident_bytes
        assert drawn["reference"][slot] == layer.reference_bytes
    assert not panel.grab().isNull()


def test_what_is_painted_is_what_was_fed_within_a_pixel(show: Show) -> None:
    kept = history(((300, 200),), slots=8)
    panel = show(kept, plan(8), (900, 420))
    panel.tabs.setCurrentIndex(1)
    QApplication.processEvents()
    plot = panel.layers.findChild(QuietPlot)
    assert plot is not None and kept.snapshot is not None
    image, base = picture(plot), at(plot, 0, 0).y()
    for slot in (0, 7):
        seen = heights(image, at(plot, slot + 0.4, 0).x())
        for kind, count in kept.snapshot.layers[slot].counted.as_dict().items():
            pixels = base - at(plot, 0, count / 1e6).y()
            # The measured line may cover a pixel of the topmost kind.
            assert abs(seen.get(kind, 0) - pixels) <= 2, kind


def test_no_tokens_is_a_sentence(show: Show) -> None:
    kept = History()
    kept.append(TokenStep("", 0, 1, snapshot(0, 4)))
    assert show(kept, plan(4)).layers.empty == PROMISE
    assert show(None).layers.empty == PROMISE


def test_a_snapshot_without_slots_is_a_sentence(show: Show) -> None:
    kept = History()
    kept.append(TokenStep("", 0, 1, snapshot(5, 0)))
    assert show(kept).layers.empty == PROMISE


def test_words_say_how_many_slots_are_compressed(show: Show) -> None:
    assert show(history(slots=30), plan(30)).layers.words == "30 slots compressed"
    partly = show(history(slots=30, foreign=FOREIGN), plan(30, FOREIGN))
    assert partly.layers.words == "27 of 30 slots compressed"
    assert show(history(((50, 3),)), plan(30)).layers.words == WAITING


def test_a_model_without_kv_slots_says_so(show: Show) -> None:
    every = frozenset(range(3))
    panel = show(history(slots=3, foreign=every), plan(3, every))
    assert panel.layers.words.startswith("None of 3 slots compressed: they keep")


def test_a_click_selects_a_slot_and_spells_it_out(show: Show, qtbot: QtBot) -> None:
    panel = show(history(slots=30), plan(30))
    assert panel.layers.detail == PICK
    plot = panel.layers.findChild(object, "plot")
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=slot_middle(panel, 11))
    assert panel.selected == 11 and panel.layers.selected == 11
    assert panel.layers.detail.startswith("Slot 11: ")
    assert panel.layers.detail.endswith("MB counted; frontier at 384 of 500")
    more = panel.layers.findChild(QLabel, "detail").toolTip()
    assert "bits per value, counted" in more and "Compressed: it hands keys and values to SKVQ" in more


def test_alone_the_view_has_room_for_everything_a_slot_holds(show: Show) -> None:
    foreign = frozenset({2})
    panel = show(history(slots=4, foreign=foreign, ranked=True), plan(4, foreign))
    panel.set_method(METHODS["skvq"])
    panel.tabs.setCurrentIndex(1)
    assert PICK_ALONE in panel.layers.slot_detail.text
    told = panel.layers.slot_detail.text.splitlines()[1:]
    assert [line.partition(": ")[0] for line in told] == [*KIND_LABELS.values(), *PLACES]
    panel.select(1)
    text = panel.layers.slot_detail.text
    for told in (
        "Slot 1", "exact rows", "resident", "measured", "in 16 bits", "500 tokens", "bits per value, counted",
        "Flush frontier: 384 tokens", "Sink rows: 4 rows", "Rank of its 3 heads",
        "Compressed: it hands keys and values to SKVQ",
    ):  # fmt: skip
        assert told in text
    layer = snapshot(500, 4, ranked=True).layers[1]
    assert f"{16 * layer.counted.total / layer.reference_bytes:.2f} bits per value" in text
    assert panel.layers.detail == ""
    panel.select(2)
    assert "Not compressed: it keeps a 512-token window of its own" in panel.layers.slot_detail.text
    assert "bits per value" not in panel.layers.slot_detail.text
    assert "sinks" not in panel.layers.slot_detail.text, "a foreign slot has none"


def test_the_detail_writes_only_the_figures_that_changed(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = history(slots=4)
    panel = show(kept, plan(4))
    panel.tabs.setCurrentIndex(1)
    panel.select(1)
    written: list[str] = []
    monkeypatch.setattr(QLabel, "setText", lambda self, text: written.append(text))
    kept.append(TokenStep("a", 1, 400, snapshot(501, 4)))
    panel.refresh()
    layer = snapshot(501, 4).layers[1]
    assert fine(layer.counted.exact) in written and fine(layer.reference_bytes) in written
    assert fine(layer.counted.codes) not in written, "codes did not change"
    assert "counted" not in written and "Slot 1" not in written


def test_a_click_on_a_foreign_slot_gives_the_plans_reason(show: Show, qtbot: QtBot) -> None:
    panel = show(history(slots=30, foreign=FOREIGN), plan(30, FOREIGN))
    plot = panel.layers.findChild(object, "plot")
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=slot_middle(panel, 2))
    assert "Not compressed: it keeps a 512-token window of its own" in panel.layers.detail


def test_the_detail_line_follows_the_history(show: Show) -> None:
    kept = history(slots=3)
    panel = show(kept, plan(3))
    panel.select(1)
    before = panel.layers.detail
    kept.append(TokenStep("a", 1, 400, snapshot(700, 3)))
    panel.refresh()
    assert panel.layers.selected == 1 and panel.layers.detail != before
    assert "frontier at 640 of 700" in panel.layers.detail


def test_arrow_keys_walk_over_the_slots(show: Show, qtbot: QtBot) -> None:
    panel = show(history(slots=3), plan(3))
    seen: list[int | None] = []
    for key in (
        Qt.Key.Key_Right,
        Qt.Key.Key_Right,
        Qt.Key.Key_End,
        Qt.Key.Key_Right,
        Qt.Key.Key_Left,
        Qt.Key.Key_Home,
    ):
        qtbot.keyClick(panel.layers, key)
        seen.append(panel.selected)
    assert seen == [0, 1, 2, 2, 1, 0]


def test_hovering_reads_a_slot(show: Show) -> None:
    panel = show(history(slots=30, foreign=FOREIGN), plan(30, FOREIGN))
    plot = panel.layers.findChild(object, "plot")
    plot.hovered.emit(QPointF(5.5, 0.1))
    assert "Slot 5" in QToolTip.text() and "measured" in QToolTip.text() and "counted" in QToolTip.text()
    assert "bits per value" in QToolTip.text() and "Compressed: it hands" in QToolTip.text()
    plot.hovered.emit(QPointF(2.5, 0.1))
    assert "Slot 2" in QToolTip.text() and "512-token window" in QToolTip.text()
    plot.hovered.emit(None)


def test_what_is_told_stays_while_the_pointer_rests(show: Show, qtbot: QtBot) -> None:
    panel = show(history(slots=30), plan(30))
    plot, spot = panel.layers.findChild(object, "plot"), slot_middle(panel, 5)
    qtbot.mouseMove(plot.viewport(), spot)
    qtbot.waitUntil(QToolTip.isVisible)
    here = plot.viewport().mapToGlobal(spot)
    QApplication.sendEvent(plot.viewport(), QHelpEvent(QEvent.Type.ToolTip, spot, here))
    with pytest.raises(qtbot.TimeoutError):
        qtbot.waitUntil(lambda: not QToolTip.isVisible(), timeout=500)
    assert "Slot 5" in QToolTip.text()
    plot.hovered.emit(None)


def test_another_model_drops_the_selection(show: Show) -> None:
    panel = show(history(slots=30), plan(30))
    panel.select(29)
    panel.set_plan(plan(30))
    assert panel.layers.selected == 29
    panel.set_plan(plan(12))
    assert panel.layers.selected is None


def test_fewer_slots_than_the_selected_one_drop_it(show: Show) -> None:
    kept = history(slots=30)
    panel = show(kept)
    panel.select(29)
    kept.append(TokenStep("a", 1, 9, snapshot(600, 4)))
    panel.refresh()
    assert panel.layers.selected is None and len(panel.layers.drawn["codes"]) == 4


def test_the_frame_is_ringed_for_those_who_come_by_keyboard_only(show: Show) -> None:
    panel = show(history(slots=3), plan(3))
    accent = panel.layers.findChild(object, "plot").ink.tokens.accent.lower()
    panel.activateWindow()
    for reason, ringed in ((Qt.FocusReason.MouseFocusReason, False), (Qt.FocusReason.TabFocusReason, True)):
        panel.layers.clearFocus()
        panel.layers.setFocus(reason)
        edge = panel.layers.grab().toImage().pixelColor(1, panel.layers.height() // 2)
        assert (edge.name() == accent) is ringed
