"""What moved controls would do, in words; and the search, with clicks, to a setting in the panel."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from studio.core.what_if import Finding, Point, Tried
from studio.ui.idle_work import NOTHING_TRIED
from studio.ui.what_if_wiring import TRYING
from studio.ui.window import MainWindow
from tests.studio.ui.comparisons import comparison, reply
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import FakeEngine
from veloxquant_mlx.fidelity import ReplayStep

SMALL = FakeConfig(fake_bits=2)
POINTS = (
    Point(SMALL, 2_000_000, 0.3, 0.2, measured=True),
    Point(FakeConfig(fake_bits=3), 3_000_000, 0.1, 0.02, measured=True),
    Point(FakeConfig(fake_bits=6), 6_000_000, 0.2, 0.08),
    Point(FakeConfig(fake_bits=8), 8_000_000, 0.05, 0.005),
)


@pytest.fixture
def talking(loaded: MainWindow, engine: FakeEngine) -> MainWindow:
    loaded.cache.menu.at_once.setChecked(False)
    loaded.send("hello")
    engine.started.emit("reply")
    engine.tokens = 300
    engine.play_text("Hi", 4)
    engine.play_finished("Hi", new=4)
    return loaded


def move(window: MainWindow, bits: int) -> FakeConfig:
    config = window.cache.config()
    assert isinstance(config, FakeConfig)
    wanted = replace(config, fake_bits=bits)
    window.cache.set_config(wanted)
    return wanted


def answers(window: MainWindow) -> str:
    label = window.cache.figures.answers
    return "" if label.isHidden() else label.text()


def test_a_moved_control_is_tried_and_said_slot_by_slot(talking: MainWindow, engine: FakeEngine) -> None:
    wanted = move(talking, 7)
    assert engine.calls[-1] == ("try_setting", wanted)
    assert answers(talking) == TRYING
    engine.tried.emit(Tried(wanted, 300, ((0, 0.02),), 0, 3))
    assert (
        answers(talking) == "Attention output about 2.0% off, estimated from one head of each of 1 of 3 slots"
    )
    errors = ((0, 0.02), (2, 0.04), (1, 0.06))
    engine.tried.emit(Tried(wanted, 300, errors, 0, 3))
    assert answers(talking) == "Attention output about 4.0% off, estimated from one head a slot"
    engine.tried.emit(Tried(wanted, 300, errors, 2, 3))
    assert (
        answers(talking) == "Attention output about 4.0% off, measured on 2 of 3 slots, estimated on the rest"
    )
    engine.tried.emit(Tried(wanted, 300, errors, 3, 3))
    assert answers(talking) == "Attention output 4.0% off, measured on 3 slots"


def test_a_model_of_one_head_a_slot_is_measured_at_once(talking: MainWindow, engine: FakeEngine) -> None:
    wanted = move(talking, 7)
    engine.tried.emit(Tried(wanted, 300, ((0, 0.02),), 1, 3))
    assert answers(talking) == "Attention output 2.0% off, measured on 1 of 3 slots"


def test_where_nothing_can_be_tried_a_sentence_says_why(talking: MainWindow, engine: FakeEngine) -> None:
    engine.tried.emit(NOTHING_TRIED)
    assert answers(talking) == "", "nothing was asked"
    move(talking, 7)
    engine.tried.emit(NOTHING_TRIED)
    assert answers(talking) == NOTHING_TRIED


def test_beside_it_stands_what_was_measured_and_the_kl_it_predicts(
    talking: MainWindow, engine: FakeEngine
) -> None:
    engine.compared.emit(comparison(FakeConfig(), reply(1, ["a"], [1], kl=[0.04]), errors=(0.1, 0.1, 0.4)))
    wanted = move(talking, 7)
    engine.tried.emit(Tried(wanted, 300, ((0, 0.05), (1, 0.05)), 2, 3))
    assert answers(talking) == (
        "Attention output 5.0% off (10.0% now), measured on 2 of 3 slots. "
        "KL about 0.010 nats predicted, 0.040 nats measured now"
    )
    engine.tried.emit(Tried(wanted, 300, ((0, 0.0), (1, 0.0)), 2, 3))
    assert answers(talking).endswith("KL below 0.00001 nats predicted, 0.040 nats measured now")


def test_an_answer_to_an_older_question_is_not_shown(talking: MainWindow, engine: FakeEngine) -> None:
    older = move(talking, 7)
    move(talking, 6)
    engine.tried.emit(Tried(older, 300, ((0, 0.02),), 1, 3))
    assert answers(talking) == TRYING


def test_back_at_the_setting_in_use_nothing_is_tried(talking: MainWindow, engine: FakeEngine) -> None:
    in_use = talking.applying.standing.in_use
    assert in_use is not None
    move(talking, 7)
    talking.cache.set_config(in_use)
    assert engine.calls[-1] == ("try_setting", None)
    assert answers(talking) == ""


def opened(window: MainWindow):  # type: ignore[no-untyped-def]
    window.cache.menu.smallest.trigger()
    dialog = window.what_if.dialog
    assert dialog is not None and dialog.isVisible()
    assert dialog.chart.isHidden(), "an empty chart says nothing"
    return dialog


def finding(done: int = 4, *, complete: bool = False) -> Finding:
    best = POINTS[1] if complete else None
    return Finding(done, 4, "Two of four", 0.05, 300, 12_000_000, POINTS[:done], best, complete)


def test_the_search_begins_and_ends_with_a_click(
    talking: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    dialog = opened(talking)
    dialog.limit.setValue(0.05)
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    assert engine.calls[-1] == ("find_smallest", 0.05)
    assert dialog.running and dialog.button.text() == "Cancel" and not dialog.limit.isEnabled()
    engine.comparing.emit(ReplayStep(64, 300))
    assert dialog.words.text() == "Reading the conversation, 64 of 300 tokens"
    engine.finding.emit(finding(2))
    assert (dialog.bar.value(), dialog.bar.maximum()) == (2, 4)
    assert dialog.words.text() == "Two of four. 300 tokens, 12.0 MB at 16 bits, counted."
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    assert engine.calls[-1] == ("find_smallest", None)
    engine.finding.emit(None)
    assert not dialog.running and dialog.limit.isEnabled()
    assert len(dialog.chart.drawn) == 2, "the points so far stay"


def test_every_point_stands_where_its_figures_say_and_a_click_sets_it(
    talking: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    dialog = opened(talking)
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    engine.finding.emit(finding(complete=True))
    assert not dialog.running
    assert dialog.verdict.text() == "Fake Small, bits 3: 3.00 MB predicted, KL 0.020 nats measured"
    assert dialog.chart.drawn[:, 0].tolist() == [2.0, 3.0, 6.0, 8.0]
    assert (10 ** dialog.chart.drawn[:, 1]).tolist() == pytest.approx([0.2, 0.02, 0.08, 0.005])
    assert dialog.chart.front == [0, 1, 3]
    qtbot.waitExposed(dialog)
    for point in POINTS:
        import math

        chart = dialog.chart
        at = chart.getViewBox().mapViewToScene(QPointF(point.bytes / 1e6, math.log10(point.kl or 1)))
        QTest.mouseClick(chart.viewport(), Qt.MouseButton.LeftButton, pos=chart.mapFromScene(at))
        assert talking.cache.config() == point.config


def test_a_click_beside_all_points_changes_nothing(
    talking: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    dialog = opened(talking)
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    engine.finding.emit(finding(complete=True))
    before = talking.cache.config()
    chart = dialog.chart
    at = chart.getViewBox().mapViewToScene(QPointF(5.0, -2.5))
    QTest.mouseClick(chart.viewport(), Qt.MouseButton.LeftButton, pos=chart.mapFromScene(at))
    assert talking.cache.config() == before


def test_closing_the_window_of_a_search_ends_it(
    talking: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    dialog = opened(talking)
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    dialog.close()
    assert engine.calls[-1] == ("find_smallest", None)
