"""Picking a method and a preset, seeing what it will take, applying it."""

import pytest
from pytestqt.qtbot import QtBot

from studio.ui import cache_panel
from studio.ui.cache_panel import CachePanel, shapes_of
from studio.ui.controls import Segments, ValueSlider
from tests.studio import synthetic
from tests.studio.ui.conftest import METHODS
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import STARTER
from veloxquant_mlx.config import SlotShape
from veloxquant_mlx.telemetry import CacheSnapshot


@pytest.fixture
def panel(qtbot: QtBot) -> CachePanel:
    made = CachePanel()
    qtbot.addWidget(made)
    made.resize(292, 500)
    made.show()
    made.set_methods(METHODS)
    return made


def drag(panel: CachePanel, position: int) -> None:
    slider = panel._forms["fake"].control("fake_bits")
    assert isinstance(slider, ValueSlider)
    slider.slider.setValue(position)


def said(panel: CachePanel) -> str:
    return panel._effect.text()


def test_before_the_methods_it_waits_quietly(qtbot: QtBot) -> None:
    made = CachePanel()
    qtbot.addWidget(made)
    made.show()
    assert made.config() is None
    assert not made.apply_button.isVisible()
    made.set_model(None, None)
    made.set_snapshot(None)
    made.set_methods(METHODS)
    assert made.apply_button.isVisible()


def test_the_first_preset_comes_up_and_a_drag_makes_it_custom(panel: CachePanel) -> None:
    assert panel.config() == FakeConfig.preset("Small")
    assert panel.preset_box.currentText() == "Small"
    drag(panel, 4)
    assert panel.preset_box.currentText() == cache_panel.CUSTOM
    drag(panel, 3)
    assert panel.preset_box.currentText() == "Plain"
    assert panel.preset_box.findText(cache_panel.CUSTOM) < 0


def test_choosing_a_preset_moves_the_controls(panel: CachePanel) -> None:
    panel.preset_box.setCurrentText("Plain")
    panel.preset_box.activated.emit(panel.preset_box.currentIndex())
    assert panel.config() == FakeConfig()


def test_prediction_without_a_model_is_an_example(panel: CachePanel) -> None:
    assert panel.figures.bits.text() == "2 bits"
    assert panel.figures.ratio.text() == "8.0× smaller"
    assert panel.figures.basis.text() == "2.1 MB of 16.8 MB per slot at 4,096 tokens"
    for words in (panel.figures.bits_words, panel.figures.ratio_words):
        assert "predicted" in words.text()


def test_prediction_follows_the_model_and_the_drag(panel: CachePanel) -> None:
    panel.set_model(shapes_of(STARTER), 8192)
    assert panel.figures.basis.text() == "11.8 MB of 94.4 MB at 4,096 tokens"
    drag(panel, 7)
    assert panel.figures.bits.text() == "8 bits" and panel.figures.ratio.text() == "2.0× smaller"
    panel.set_model(shapes_of(STARTER), 2048)
    assert "at 2,048 tokens" in panel.figures.basis.text()


def test_prediction_follows_a_long_conversation(panel: CachePanel) -> None:
    panel.set_model([SlotShape(3, 64, 64)] * 30, 8192)
    panel.set_snapshot(synthetic.snapshot(6000))
    assert "at 6,000 tokens" in panel.figures.basis.text()


def test_the_running_cache_is_counted_and_measured(panel: CachePanel) -> None:
    snapshot = synthetic.snapshot(1000)
    panel.set_snapshot(snapshot)
    assert panel.figures.running.text() == (
        f"Now {snapshot.resident_bytes / 1e6:.1f} MB measured, {snapshot.counted.total / 1e6:.1f} MB counted"
    )
    panel.set_snapshot(synthetic.snapshot(10))
    assert panel.figures.running.text().endswith("Nothing compressed yet.")
    panel.set_snapshot(None)
    assert panel.figures.running.text() == ""


def test_no_slots_make_no_figures(panel: CachePanel) -> None:
    panel.set_snapshot(CacheSnapshot(0, (), 0, 0))
    assert "Nothing compressed yet" in panel.figures.running.text()


def test_applying_and_when_it_takes_effect(qtbot: QtBot, panel: CachePanel) -> None:
    asked: list[object] = []
    panel.apply_requested.connect(asked.append)
    assert panel.apply_button.isEnabled() and said(panel) == cache_panel.FIRST
    panel.apply_button.click()
    assert asked == [panel.config()]
    panel.set_applied(FakeConfig.preset("Small"))
    assert not panel.apply_button.isEnabled() and said(panel) == cache_panel.SET
    panel.set_in_use()
    assert said(panel) == cache_panel.IN_USE
    drag(panel, 5)
    assert panel.apply_button.isEnabled()
    assert said(panel) == (
        "Takes effect with the next message: the conversation is read again through the new cache."
    )
    panel.apply_button.click()
    config = panel.config()
    assert config is not None
    panel.set_applied(config)
    assert said(panel) == cache_panel.WAITING
    panel.set_in_use()
    assert said(panel) == cache_panel.IN_USE


def test_what_cannot_be_is_not_applied(panel: CachePanel) -> None:
    form = panel._forms["fake"]
    form.problem.emit("Group must not be larger than the window.")
    assert not panel.apply_button.isEnabled()
    assert said(panel) == "Group must not be larger than the window."
    panel.apply()
    form.problem.emit("")
    assert panel.apply_button.isEnabled()


def test_a_preset_leads_out_of_what_cannot_be(panel: CachePanel) -> None:
    form = panel._forms["fake"]
    form.set_config(FakeConfig(fake_window=16))
    segments = form.control("fake_group").findChild(Segments)
    assert isinstance(segments, Segments)
    segments.set_value(64)
    segments.chosen.emit(64)
    assert form.note("fake_group") and not panel.apply_button.isEnabled()
    panel.preset_box.setCurrentText("Plain")
    panel.preset_box.activated.emit(panel.preset_box.currentIndex())
    assert form.note("fake_group") == "" and panel.apply_button.isEnabled()
    assert segments.value() == 32


def test_the_plan_is_said(panel: CachePanel) -> None:
    panel.set_plan(synthetic.plan(30))
    assert panel.figures.plan.text() == "All 30 slots compressed."
    panel.set_plan(None)
    assert panel.figures.plan.text() == ""


def test_a_model_that_does_not_tell_its_shapes_has_none() -> None:
    assert shapes_of(None) is None
    assert shapes_of(STARTER) == [SlotShape(3, 64, 64)] * 30


def test_in_a_low_panel_the_figures_scroll_with_the_form(qtbot: QtBot, panel: CachePanel) -> None:
    panel.resize(292, 700)
    qtbot.waitUntil(lambda: not panel._holder.isAncestorOf(panel.figures))
    panel.resize(292, 320)
    qtbot.waitUntil(lambda: panel._holder.isAncestorOf(panel.figures))
    panel.resize(292, 700)
    qtbot.waitUntil(lambda: not panel._holder.isAncestorOf(panel.figures))


def test_in_a_low_panel_the_controls_come_before_the_figures(qtbot: QtBot, panel: CachePanel) -> None:
    panel.resize(300, 320)
    qtbot.waitUntil(lambda: panel._holder.isAncestorOf(panel.figures))
    form = panel._forms[panel.method_box.currentData()]
    qtbot.waitUntil(lambda: panel.figures.geometry().top() >= form.geometry().bottom() > 0)
