import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QToolTip
from pytestqt.qtbot import QtBot

from studio.ui.charts.panel import ChartsPanel
from studio.ui.charts.ramp import STEPS, ramp
from studio.ui.charts.rank import NOT_FITTED, PROMISE, no_rank
from studio.ui.charts.scene import WAITING
from studio.ui.charts.spectrum import Bars, runs
from studio.ui.theme import Scheme
from tests.studio.synthetic import basis, history, plan, snapshot
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, picture
from veloxquant_mlx.config import Gauge, KVCacheConfig, methods
from veloxquant_mlx.telemetry import HeadBasis

FOREIGN = frozenset({2})


class Ranked(KVCacheConfig):
    """A method with a basis."""

    label: ClassVar[str] = "Ranked"
    gauges: ClassVar[Mapping[str, Gauge]] = {"rank": Gauge("Rank", "Latent channels.", "channels")}


def ranked(show: Show, slots: int = 12, size: tuple[int, int] = (1280, 290)) -> ChartsPanel:
    panel = show(history(((300, 60),), slots=slots, foreign=FOREIGN, ranked=True), plan(slots, FOREIGN), size)
    panel.set_method(Ranked)
    panel.tabs.setCurrentIndex(3)
    return panel


@pytest.mark.parametrize("slots", [1, 12, 128])
def test_every_head_has_its_rank(show: Show, slots: int) -> None:
    drawn = ranked(show, slots).rank.drawn
    for slot in range(slots):
        for head in range(3):
            if slot in FOREIGN:
                assert math.isnan(drawn[slot, head])
            else:
                assert drawn[slot, head] == basis(slot, head).rank


def test_cells_are_painted_in_the_colour_of_their_rank(show: Show) -> None:
    view = ranked(show).rank
    image = picture(view.plot)
    for slot, head in ((0, 0), (5, 2), (11, 1)):
        corner = at(view.plot, slot, head)
        wanted = view._cells.colour(basis(slot, head).rank, Scheme.Dark)
        assert image.pixelColor(corner.x() + 3, corner.y() + 3).name() == wanted.name()


def test_the_ramp_rises_evenly_in_lightness_and_away_from_the_paper() -> None:
    for scheme in (Scheme.Dark, Scheme.Light):
        light = np.array([colour.lightnessF() for colour in ramp(scheme)])
        steps = np.diff(light)
        assert len(light) == STEPS and np.all(steps > 0 if scheme == Scheme.Dark else steps < 0)


def test_a_click_shows_the_head_s_spectrum_with_its_figures(show: Show, qtbot: QtBot) -> None:
    panel = ranked(show)
    plot = panel.rank.plot
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=at(plot, 4.5, 1.5))
    wanted = basis(4, 1)
    assert panel.selected == 4 and panel.rank.selected == (4, 1) and panel.layers.selected == 4
    assert panel.rank.spectrum.basis == wanted and panel.rank.spectrum.isVisible()
    kept = sum(wanted.spectrum[: wanted.rank])
    drift = snapshot(360, 12, ranked=True).layers[4].drift[1]
    told = panel.rank.detail
    assert told.startswith(f"Slot 4, head 1: rank {wanted.rank} of 64 keeps {kept:.1%}")
    assert "bits per channel: 1 to 8" in told and f"drift {drift:.1%}" in told and "measured" in told


def test_the_spectrum_s_bars_are_as_high_as_their_share(show: Show, qtbot: QtBot) -> None:
    panel = ranked(show)
    panel.select(4)
    QToolTip.hideText()
    spectrum = panel.rank.spectrum
    qtbot.waitUntil(lambda: spectrum.inside()[0] > 100)
    bars = spectrum.findChild(Bars) or spectrum._bars
    image = picture(spectrum)
    paper = image.pixelColor(at(spectrum, 63.5, 0.0)).name()
    for channel in (1, 20, 40):
        x = at(spectrum, channel + 0.4, 0).x()
        top = at(spectrum, 0, float(bars.heights()[channel])).y()
        assert image.pixelColor(x, top + 2).name() != paper
        assert image.pixelColor(x, top + 2).name() == image.pixelColor(x, top + 6).name()
    cut = at(spectrum, basis(4, 0).rank, 0).x()
    ink = spectrum.ink.text.name()
    seen = {
        x
        for x in range(cut - 4, cut + 5)
        for y in range(image.height())
        if image.pixelColor(x, y).name() == ink
    }
    assert any(abs(x - cut) <= 1 for x in seen)


def test_keys_walk_over_slots_and_heads(show: Show, qtbot: QtBot) -> None:
    panel = ranked(show)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Down):
        qtbot.keyClick(panel.rank, key)
    assert panel.rank.selected == (1, 2) and panel.selected == 1
    qtbot.keyClick(panel.rank, Qt.Key.Key_Up)
    qtbot.keyClick(panel.rank, Qt.Key.Key_End)
    assert panel.rank.selected == (11, 1)


def test_hovering_reads_a_head_and_says_why_a_slot_has_none(show: Show) -> None:
    panel = ranked(show)
    panel.rank.plot.hovered.emit(QPointF(5.5, 0.5))
    assert f"rank {basis(5, 0).rank} of 64" in QToolTip.text()
    panel.rank.plot.hovered.emit(QPointF(2.5, 0.5))
    assert "Slot 2 has no rank. Not compressed: it keeps a 512-token window" in QToolTip.text()


def test_a_method_without_a_rank_says_why(show: Show) -> None:
    for kept in (None, history(slots=4)):
        panel = show(kept, plan(4))
        panel.set_method(methods()["skvq"])
        panel.tabs.setCurrentIndex(3)
        assert panel.rank.empty == no_rank("SKVQ") and panel.rank.empty.startswith("SKVQ has no rank")


def test_a_method_with_a_rank_says_when_there_will_be_one(show: Show) -> None:
    panel = show(None)
    panel.set_method(Ranked)
    panel.tabs.setCurrentIndex(3)
    assert panel.rank.empty == PROMISE
    panel.set_history(history(slots=4))
    assert panel.rank.empty == f"{WAITING}. {NOT_FITTED}"
    panel.set_waiting("The first 516 tokens stay exact")
    assert panel.rank.empty == f"The first 516 tokens stay exact. {NOT_FITTED}"
    every = plan(4, frozenset(range(4)))
    panel.set_plan(every)
    assert panel.rank.empty == every.sentence


def test_before_the_first_flush_the_drift_is_unknown_not_zero(show: Show) -> None:
    panel = show(history(((60, 5),), slots=3, ranked=True), plan(3))
    panel.tabs.setCurrentIndex(3)
    panel.select(1)
    assert "drift not known yet" in panel.rank.detail


def test_a_moment_before_the_fit_has_no_ranks(show: Show) -> None:
    panel = ranked(show)
    panel.timeline.hold(0)
    assert panel.rank.empty == PROMISE


def test_runs_of_equal_bits() -> None:
    assert runs((8, 8, 4, 0, 0)) == [(0, 2), (2, 3), (3, 5)] and runs(()) == []


def test_a_spectrum_that_ends_in_zeros_is_drawn(show: Show) -> None:
    panel = ranked(show)
    panel.rank.spectrum.show_head(HeadBasis(2, (0.9, 0.1, 0.0, 0.0), (2, 1)))
    assert not panel.rank.spectrum.grab().isNull()
    panel.rank.spectrum.show_head(HeadBasis(1, (1.0,), (0,)))
    assert not panel.rank.spectrum.grab().isNull()
