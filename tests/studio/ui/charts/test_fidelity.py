"""The Fidelity view against figures that are known: places, heights, colours, the frontier, the slots."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from studio.core.history import History
from studio.ui.charts.fidelity import NOT_COMPARED, FidelityView
from studio.ui.charts.panel import ChartsPanel
from studio.ui.charts.token_stems import FLOOR
from studio.ui.theme import Scheme, tint_colour
from studio.ui.token_fidelity import FAR, NEAR, SAME, Fidelity
from tests.studio import synthetic
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, picture
from tests.studio.ui.comparisons import comparison, reply
from tests.studio.ui.fake_cache import FakeConfig

KL = [1e-7, 0.001, 0.1, 2.0]
ERRORS = (0.02, None, 0.05)


@pytest.fixture
def panel(show: Show) -> ChartsPanel:
    made = show(synthetic.history())
    made.tabs.setCurrentIndex(4)
    found = comparison(FakeConfig(), reply(1, ["a", "b", "c", "d"], [1, 1, 4, 7], kl=KL), errors=ERRORS)
    made.fidelity.show_fidelity(Fidelity(found.replies, found.slots, "Fake Small"))
    QApplication.processEvents()
    return made


def test_without_a_comparison_there_is_a_sentence(show: Show) -> None:
    view = show(History()).fidelity
    assert view.empty == NOT_COMPARED
    assert not view.menu.isEnabled()
    view.show_fidelity(Fidelity(why_not="Because"))
    assert view.empty == "Because"
    view.show_fidelity(Fidelity(why_not="Because", progress="Reading"))
    assert view.empty == "Reading"


def test_every_token_stands_at_its_position(panel: ChartsPanel) -> None:
    places, kl, levels = panel.fidelity.drawn
    assert places.tolist() == [100, 101, 102, 103]
    assert kl.tolist() == KL
    assert levels.tolist() == [SAME, SAME, NEAR, FAR]
    assert panel.fidelity.words == "mean 0.525 nats, same first choice 50%, measured"


def test_colours_are_seen_where_the_scale_says(panel: ChartsPanel, qtbot: QtBot) -> None:
    view = panel.fidelity
    panel.timeline.zoom(0.01, 102.0, view.whole)
    image = picture(view.plot)
    for place, kl, level in ((102, 0.1, NEAR), (103, 2.0, FAR)):
        seen = image.pixelColor(at(view.plot, place + 0.5, np.log10(kl)))
        wanted = tint_colour(level, Scheme.Dark)
        assert sum(abs(a - b) for a, b in zip(seen.getRgb()[:3], wanted.getRgb()[:3], strict=True)) < 30


def test_below_what_rounding_leaves_a_token_lies_on_the_floor(panel: ChartsPanel) -> None:
    assert panel.fidelity._stems.heights.tolist() == pytest.approx([np.log10(FLOOR), -3, -1, np.log10(2)])


def test_the_mean_runs_over_the_last_tokens(panel: ChartsPanel) -> None:
    kl = np.arange(1.0, 101.0)
    panel.fidelity._stems.take(np.arange(100.0), kl, np.zeros(100, np.int64))
    mean = panel.fidelity._stems.mean()
    assert (mean[0], mean[9], mean[99]) == pytest.approx((1.0, 5.5, kl[68:].mean()))


def test_the_frontier_is_that_of_the_moment(panel: ChartsPanel) -> None:
    history = panel._history
    assert history is not None and history.snapshot is not None
    panel.refresh()
    assert panel.fidelity.frontier == history.snapshot.gauge("frontier") > 0
    panel.timeline.hold(320)
    panel.refresh()
    moment = history.moment(320)
    assert moment is not None
    assert history.snapshot.gauge("frontier") > panel.fidelity.frontier == moment.gauge("frontier") > 0


def test_slots_have_their_error_in_percent(panel: ChartsPanel, qtbot: QtBot) -> None:
    view = panel.fidelity
    np.testing.assert_allclose(view.drawn_errors, [2.0, np.nan, 5.0])
    assert view.detail == (
        "Attention output through Fake Small: 3.50 % off per slot on average, 5.00 % at most, in slot 2, "
        "measured with the newest queries"
    )
    image = picture(view.errors)
    accent = view.errors.ink.tokens.accent
    for slot, high in ((0, 2.0), (2, 5.0)):
        below = at(view.errors, slot + 0.4, high * 0.9)
        above = at(view.errors, slot + 0.4, high * 1.04)
        assert image.pixelColor(below).name().lower() == accent.lower()
        assert image.pixelColor(above).name().lower() != accent.lower()


def test_a_click_on_a_slot_selects_it_in_every_view(panel: ChartsPanel, qtbot: QtBot) -> None:
    view = panel.fidelity
    where = at(view.errors, 2.5, 1.0)
    QTest.mouseClick(view.errors.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert panel.selected == 2
    assert panel.layers.selected == 2
    assert view.detail == "Slot 2: attention output 5.00 % away from the uncompressed one, measured"


def test_details_of_a_token_are_under_the_pointer(
    panel: ChartsPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    tip = "studio.ui.charts.fidelity.QToolTip.showText"
    monkeypatch.setattr(tip, lambda _at, text, _of: said.append(text))
    view = panel.fidelity
    QTest.mouseMove(view.plot.viewport(), QPoint(at(view.plot, 103.5, -1)))
    assert "“d”" in said[-1] and "choice 7, 25% likely" in said[-1]
    assert said[-1].endswith("at 103 tokens of the conversation")


def test_of_replies_that_overlap_the_newest_counts(panel: ChartsPanel) -> None:
    old = reply(1, ["a", "b", "c"], [9, 9, 9], start=10)
    new = reply(2, ["x", "y"], [1, 1], start=11)
    panel.fidelity.show_fidelity(Fidelity((old, new)))
    places, _, levels = panel.fidelity.drawn
    assert places.tolist() == [10, 11, 12]
    assert levels.tolist() == [FAR, SAME, SAME]


def test_the_table_has_a_row_per_token(panel: ChartsPanel) -> None:
    names, rows = panel.fidelity.table()
    found = [list(row) for row in rows]
    assert len(found) == 4
    assert all(len(row) == len(names) for row in found)
    assert found[2] == [102, "c", 0.1, 4, 1, 0.25, 0.5, False, "<2>"]


def test_nothing_to_draw_does_not_break_the_view(qtbot: QtBot) -> None:
    view = FidelityView()
    qtbot.addWidget(view)
    view.set_scheme(Scheme.Light)
    view.hover(None)
    assert view.drawn[0].size == 0
