import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import QToolTip
from pytestqt.qtbot import QtBot

from studio.core.history import History
from studio.ui.charts.runs import LEAST, runs_of
from studio.ui.charts.token_map import PROMISE
from tests.studio.synthetic import history, plan, snapshot
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, picture, widths
from veloxquant_mlx.steps import TokenStep
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot, LayerStats

FOREIGN = frozenset({1})


@pytest.mark.parametrize("slots", [1, 30, 128])
def test_runs_are_what_was_fed(show: Show, slots: int) -> None:
    panel = show(history(((300, 200),), slots=slots), plan(slots))
    runs = panel.token_map.drawn
    assert runs is not None and runs.tokens == 500
    assert runs.sinks.tolist() == [4] * slots and runs.codes.tolist() == [384] * slots
    assert runs.exact.tolist() == [500] * slots
    assert [runs.kind_at(0, token) for token in (0, 3, 4, 383, 384, 499, 500)] == [
        "sinks", "sinks", "codes", "codes", "exact", "exact", None,
    ]  # fmt: skip


def test_what_is_painted_is_what_was_fed_within_a_pixel(show: Show) -> None:
    panel = show(history(((300, 200),), slots=6, foreign=FOREIGN), plan(6, FOREIGN), (900, 320))
    panel.tabs.setCurrentIndex(2)
    plot = panel.token_map.plot
    image = picture(plot)
    for slot in (0, 5):
        seen = widths(image, at(plot, 0, slot + 0.5).y())
        for kind, first, end in (("codes", 4, 384), ("exact", 384, 500)):
            assert abs(seen[kind][0] - at(plot, first, 0).x()) <= 2
            assert abs(seen[kind][1] + 1 - at(plot, end, 0).x()) <= 2
        wide = seen["sinks"][1] + 1 - seen["sinks"][0]
        assert abs(wide - max(LEAST, at(plot, 4, 0).x() - at(plot, 0, 0).x())) <= 1
    assert widths(image, at(plot, 0, 1.5).y()) == {}


def test_a_few_sinks_of_a_long_conversation_are_still_seen(show: Show) -> None:
    kept = History()
    kept.append(TokenStep("a", 1, 1, snapshot(100_000, 128)))
    panel = show(kept, plan(128))
    panel.tabs.setCurrentIndex(2)
    plot = panel.token_map.plot
    seen = widths(picture(plot), at(plot, 0, 64.5).y())
    assert seen["sinks"][1] + 1 - seen["sinks"][0] == LEAST


def test_the_frontier_is_named_and_moves_with_the_history(show: Show) -> None:
    kept = history(((300, 83),), slots=3)
    panel = show(kept, plan(3))
    plot = panel.token_map.plot
    text = plot.ink.text.name()

    def line() -> int:
        image = picture(plot)
        y = at(plot, 0, 1.5).y()
        found = [x for x in range(image.width()) if image.pixelColor(x, y).name() == text]
        return round(float(np.mean(found)))

    assert abs(line() - at(plot, 256, 0).x()) <= 2
    kept.append(TokenStep("a", 1, 84, snapshot(384, 3)))
    panel.refresh()
    assert panel.token_map.drawn is not None and panel.token_map.drawn.codes[0] == 384
    kept.append(TokenStep("a", 1, 85, snapshot(400, 3)))
    panel.refresh()
    assert abs(line() - at(plot, 384, 0).x()) <= 2
    assert panel.token_map.words == "16 newest exact"


def test_slots_without_a_frontier_are_one_run() -> None:
    coded = LayerStats(0, True, ByteCount(codes=900, parameters=90), 990, 3200, 50)
    plain = LayerStats(1, True, ByteCount(exact=3200), 3200, 3200, 50)
    state = LayerStats(2, False, ByteCount(foreign=700), 700, 700, 0)
    runs = runs_of(CacheSnapshot(50, (coded, plain, state), 0, 0))
    assert [runs.kind_at(slot, 10) for slot in range(3)] == ["codes", "exact", "foreign"]
    assert runs.bounds("foreign")[1].tolist() == [0, 0, 50]


def test_hovering_names_the_token_among_its_neighbours(show: Show) -> None:
    panel = show(history(((300, 200),), slots=30), plan(30))
    panel.token_map.plot.hovered.emit(QPointF(320.4, 11.5))
    told = QToolTip.text()
    assert "Token 321" in told and "Slot 11: codes" in told
    assert "r319" in told and ">&nbsp;r320<" in told and "r321" in told
    panel.token_map.plot.hovered.emit(QPointF(490.4, 11.5))
    assert "an exact row" in QToolTip.text()
    panel.token_map.plot.hovered.emit(QPointF(501, 11.5))
    assert panel.token_map._rows.hover is None


def test_hovering_a_foreign_slot_gives_its_reason_and_bytes(show: Show) -> None:
    panel = show(history(slots=3, foreign=FOREIGN), plan(3, FOREIGN))
    told = panel.token_map.told(1, 10)
    assert "it keeps a 512-token window of its own" in told and "384,000 bytes" in told


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        ('"><img src=x>', "&quot;&gt;&lt;img&nbsp;src=x&gt;"),
        ("\u202egnp.exe", "·gnp.exe"),
        ("a\nb\x00\u200b", "a↵b··"),
        ("x" * 100_000, "x" * 120 + "<"),
    ],
)
def test_a_hostile_text_is_shown_as_what_it_is(show: Show, piece: str, shown: str) -> None:
    kept = History()
    kept.append(TokenStep("", 1, 1, snapshot(1, 2), (piece,)))
    told = show(kept, plan(2)).token_map.told(0, 0)
    assert shown in told and (piece not in told or piece == shown)
    assert len(told) < 1000


def test_a_token_without_a_text_says_so(show: Show) -> None:
    kept = History()
    kept.append(TokenStep("", 1, 1, snapshot(9, 2)))
    assert "Its text is not known" in show(kept, plan(2)).token_map.told(0, 3)


def test_a_click_and_the_arrow_keys_select_a_slot_everywhere(show: Show, qtbot: QtBot) -> None:
    panel = show(history(slots=10, ranked=True), plan(10))
    plot = panel.token_map.plot
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=at(plot, 50, 6.5) + QPoint(1, 0))
    assert panel.selected == 6 and panel.layers.selected == 6
    panel.tabs.setCurrentIndex(3)
    assert panel.rank.selected == (6, 0)
    panel.tabs.setCurrentIndex(2)
    qtbot.keyClick(panel.token_map, Qt.Key.Key_Down)
    qtbot.keyClick(panel.token_map, Qt.Key.Key_Down)
    qtbot.keyClick(panel.token_map, Qt.Key.Key_Up)
    assert panel.selected == panel.layers.selected == 7


def test_no_tokens_are_a_sentence(show: Show) -> None:
    assert show(None).token_map.empty == PROMISE
    kept = History()
    kept.append(TokenStep("", 0, 1, snapshot(0, 4)))
    assert show(kept, plan(4)).token_map.empty == PROMISE
