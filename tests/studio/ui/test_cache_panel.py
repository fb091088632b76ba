"""Picking a method and a preset, seeing what it will take, applying it."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QSlider
from pytestqt.qtbot import QtBot

from studio.ui import standing_row
from studio.ui.applying import Standing
from studio.ui.cache_panel import CachePanel, shapes_of
from studio.ui.fields import ValueSlider
from studio.ui.preset_box import CUSTOM
from studio.ui.theme import Scheme, apply_theme
from tests.studio import synthetic
from tests.studio.ui.conftest import METHODS
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import STARTER
from tests.studio.ui.test_form import move
from veloxquant_mlx.config import KVCacheConfig, SlotShape, methods
from veloxquant_mlx.steps import PrefillStep
from veloxquant_mlx.telemetry import CacheSnapshot


@pytest.fixture
def panel(qtbot: QtBot) -> CachePanel:
    made = CachePanel()
    qtbot.addWidget(made)
    made.resize(292, 560)
    made.show()
    made.set_methods(METHODS)
    return made


def slider(panel: CachePanel) -> QSlider:
    control = panel._forms["fake"].control("fake_bits")
    assert isinstance(control, ValueSlider)
    return control.slider


def drag(panel: CachePanel, position: int) -> None:
    slider(panel).setValue(position)


def choose(panel: CachePanel, preset: str) -> None:
    """As a click into the list does."""
    panel.preset_box.setCurrentText(preset)
    panel.preset_box.activated.emit(panel.preset_box.currentIndex())


def said(panel: CachePanel) -> str:
    return panel.row.words.text()


def use(panel: CachePanel, config: KVCacheConfig | None = None) -> None:
    """As when the engine took over what the controls stand for."""
    panel.set_standing(Standing(config or panel.config()))


def asked(panel: CachePanel) -> list[object]:
    """What the panel asks to be applied from now on."""
    told: list[object] = []
    panel.apply_requested.connect(told.append)
    return told


def test_before_the_methods_it_waits_quietly(qtbot: QtBot) -> None:
    made = CachePanel()
    qtbot.addWidget(made)
    made.show()
    assert made.config() is None
    assert not made.preset_box.isVisible()
    made.set_model(None, None)
    made.set_snapshot(None)
    made.set_methods(METHODS)
    assert made.preset_box.isVisible()


def test_the_first_preset_comes_up_and_a_drag_makes_it_custom(panel: CachePanel) -> None:
    assert panel.config() == FakeConfig.preset("Small")
    assert panel.preset_box.currentText() == "Small"
    drag(panel, 4)
    assert panel.preset_box.currentText() == CUSTOM
    drag(panel, 3)
    assert panel.preset_box.currentText() == "Plain"
    assert panel.preset_box.findText(CUSTOM) < 0


def test_choosing_a_preset_moves_the_controls(panel: CachePanel) -> None:
    told = asked(panel)
    choose(panel, "Plain")
    assert panel.config() == FakeConfig()
    assert told == [FakeConfig()], "choosing is letting go"


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
    high = panel.figures.running.height()
    panel.set_snapshot(None)
    assert panel.figures.running.text() == "Nothing in the cache yet"
    assert panel.figures.running.height() == high, "nothing moves when the first token comes"


def test_no_slots_make_no_figures(panel: CachePanel) -> None:
    panel.set_snapshot(CacheSnapshot(0, (), 0, 0))
    assert "Nothing compressed yet" in panel.figures.running.text()


def test_the_models_context_has_a_figure_of_its_own(panel: CachePanel) -> None:
    panel.set_model(shapes_of(STARTER), 8192)
    assert panel.figures.full.text() == "23.6 MB when its context of 8,192 is full"
    panel.set_model(shapes_of(STARTER), 2048)
    assert panel.figures.full.text() == "", "the other line says it already"


def test_a_drag_shows_at_once_and_applies_when_it_is_let_go(qtbot: QtBot, panel: CachePanel) -> None:
    use(panel)
    panel.set_model(shapes_of(STARTER), 8192)
    told, ghosts = asked(panel), list[object]()
    panel.predicted.connect(ghosts.append)
    panel.set_talking()
    hand, y = slider(panel), slider(panel).height() // 2
    left = 7 + (hand.width() - 14) // 7
    qtbot.mousePress(hand, Qt.MouseButton.LeftButton, pos=QPoint(left, y))
    move(hand, QPoint(hand.width() - 7, y))
    assert panel.figures.bits.text() == "8 bits" and told == []
    assert ghosts[-1] == panel.config() == FakeConfig(fake_bits=8)
    assert said(panel) == "Let go to use this: the conversation is read again."
    assert not panel.row.apply_button.isVisible()
    qtbot.mouseRelease(hand, Qt.MouseButton.LeftButton, pos=QPoint(hand.width() - 7, y))
    assert told == [FakeConfig(fake_bits=8)]
    use(panel)
    assert ghosts[-1] is None and said(panel) == standing_row.IN_USE


def test_what_reading_again_takes_is_predicted_in_seconds(panel: CachePanel) -> None:
    use(panel)
    panel.set_talking()
    panel.set_speed(150.0)
    panel.set_snapshot(synthetic.snapshot(3000))
    drag(panel, 7)
    assert said(panel) == "Let go to use this: 3,000 tokens are read again, about 20 s predicted."
    panel.set_snapshot(synthetic.snapshot(6000))
    assert said(panel) == "Let go to use this: 6,000 tokens are read again, about 40 s predicted."


def test_keys_apply_after_a_pause(qtbot: QtBot, panel: CachePanel) -> None:
    use(panel)
    told = asked(panel)
    qtbot.keyClick(slider(panel), Qt.Key.Key_Right)
    qtbot.keyClick(slider(panel), Qt.Key.Key_Right)
    assert told == []
    qtbot.waitUntil(lambda: told == [FakeConfig(fake_bits=4)])


def test_where_a_setting_stands_is_said(panel: CachePanel) -> None:
    small, other = FakeConfig.preset("Small"), FakeConfig()
    row = panel.row
    use(panel)
    assert said(panel) == standing_row.SET and not row.apply_button.isVisible()
    panel.set_talking()
    assert said(panel) == standing_row.IN_USE
    choose(panel, "Plain")
    panel.set_standing(Standing(small, None, other))
    assert said(panel) == standing_row.QUEUED and row.cancel_button.isVisible()
    panel.set_standing(Standing(small, other))
    assert said(panel) == standing_row.APPLYING and not row.bar.isVisible()
    panel.set_progress(PrefillStep(512, 2048, synthetic.snapshot(512)))
    assert said(panel) == "Reading the conversation again through this cache: 512 of 2,048 tokens."
    assert row.bar.isVisible() and row.bar.value() == 250
    panel.set_standing(Standing(small))
    assert said(panel) == "Not in use: Fake Small goes on. Apply: the conversation is read again."
    assert row.apply_button.isVisible() and not row.cancel_button.isVisible() and not row.bar.isVisible()


def test_cancel_and_apply_are_asked_for(qtbot: QtBot, panel: CachePanel) -> None:
    use(panel)
    panel.set_talking()
    choose(panel, "Plain")
    panel.set_standing(Standing(FakeConfig.preset("Small"), FakeConfig()))
    with qtbot.waitSignal(panel.cancel_requested):
        qtbot.mouseClick(panel.row.cancel_button, Qt.MouseButton.LeftButton)
    panel.set_standing(Standing(FakeConfig.preset("Small")))
    told = asked(panel)
    qtbot.mouseClick(panel.row.apply_button, Qt.MouseButton.LeftButton)
    assert told == [FakeConfig()]


def test_without_apply_on_release_the_button_applies(qtbot: QtBot, panel: CachePanel) -> None:
    use(panel)
    told = asked(panel)
    panel.menu.at_once.setChecked(False)
    qtbot.keyClick(slider(panel), Qt.Key.Key_End)
    qtbot.waitUntil(lambda: not panel._pause.isActive())
    assert told == [] and panel.row.apply_button.isVisible()
    qtbot.mouseClick(panel.row.apply_button, Qt.MouseButton.LeftButton)
    assert told == [FakeConfig(fake_bits=8)]


def test_changes_are_taken_back_and_made_again_by_keys(qtbot: QtBot, panel: CachePanel) -> None:
    use(panel)
    choose(panel, "Plain")
    qtbot.keyClick(slider(panel), Qt.Key.Key_End)
    qtbot.waitUntil(lambda: not panel._pause.isActive())
    qtbot.keyClick(slider(panel), Qt.Key.Key_Home)
    qtbot.waitUntil(lambda: not panel._pause.isActive())
    told = asked(panel)
    panel.activateWindow()
    entry = panel._forms["fake"].control("fake_bits").entry  # type: ignore[union-attr]
    entry.setFocus()
    bits = []
    for _ in range(3):
        qtbot.keyClick(entry, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        bits.append(panel.config().fake_bits)  # type: ignore[union-attr]
    assert bits == [8, 4, 2]
    assert [config.fake_bits for config in told] == bits  # type: ignore[attr-defined]
    assert not panel.menu.undo.isEnabled() and panel.menu.redo.isEnabled()
    panel.menu.redo.trigger()
    assert panel.config() == FakeConfig()


def test_undo_leads_back_over_a_change_of_method(panel: CachePanel) -> None:
    panel.set_methods(METHODS | {"plain": methods()["plain"]})
    use(panel)
    first = panel.config()
    panel.method_box.setCurrentIndex(1)
    assert panel.config() == KVCacheConfig("plain")
    panel.menu.undo.trigger()
    assert panel.config() == first and panel.method_box.currentData() == "fake"


def test_reset_goes_back_to_the_preset_chosen_last(qtbot: QtBot, panel: CachePanel) -> None:
    use(panel)
    assert panel.menu.reset.text() == "Reset to Small" and not panel.menu.reset.isEnabled()
    choose(panel, "Plain")
    drag(panel, 7)
    button = panel.page.reset_button
    assert button.accessibleName() == button.toolTip() == "Reset to Plain"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert panel.config() == FakeConfig()
    assert panel.preset_box.currentText() == "Plain" and not button.isEnabled()


def test_the_plan_is_said(panel: CachePanel) -> None:
    panel.set_plan(synthetic.plan(30))
    assert panel.figures.plan.text() == "All 30 slots compressed."
    assert panel.figures.plan.isHidden(), "nothing is left out"
    panel.set_plan(synthetic.plan(30, frozenset({1})))
    assert panel.figures.plan.text().startswith("29 of 30 slots")
    assert not panel.figures.plan.isHidden()
    panel.set_plan(None)
    assert panel.figures.plan.text() == ""


def test_a_model_that_does_not_tell_its_shapes_has_none() -> None:
    assert shapes_of(None) is None
    assert shapes_of(STARTER) == [SlotShape(3, 64, 64)] * 30


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_in_a_low_panel_only_the_predicted_figures_keep_their_place(
    qtbot: QtBot, qapp: QApplication, scale: float
) -> None:
    apply_theme(qapp, Scheme.Dark, scale)
    panel = CachePanel()
    qtbot.addWidget(panel)
    panel.show()
    panel.set_methods(METHODS)
    holder, rest = panel.page.holder, panel.figures.rest
    wide, high, low = round(300 * min(scale, 1.4)), round(700 * scale), round(320 * scale)
    panel.resize(wide, high)
    qtbot.waitUntil(lambda: panel.figures.isAncestorOf(rest))
    panel.resize(wide, low)
    qtbot.waitUntil(lambda: holder.isAncestorOf(rest))
    form = panel._forms[panel.method_box.currentData()]
    qtbot.waitUntil(lambda: rest.geometry().top() >= form.geometry().bottom() > 0)
    for figure in (panel.figures.bits, panel.figures.ratio, panel.figures.bar):
        seen = figure.visibleRegion().boundingRect()
        assert seen == figure.rect() and not holder.isAncestorOf(figure)
    panel.resize(wide, high)
    qtbot.waitUntil(lambda: panel.figures.isAncestorOf(rest))


def test_a_control_stops_where_the_loaded_model_s_heads_do(panel: CachePanel) -> None:
    panel.set_config(FakeConfig(fake_window=256))
    panel.set_model([SlotShape(3, 64, 64)] * 2, 8192)
    form = panel._forms["fake"]
    sinks = form.control("fake_sinks")
    assert isinstance(sinks, ValueSlider)
    sinks.slider.setValue(50)
    assert panel.config() == FakeConfig(fake_window=256, fake_sinks=50) and form.note("fake_sinks") == ""
    sinks.slider.setValue(128)
    assert panel.config() == FakeConfig(fake_window=256, fake_sinks=64) and sinks.value() == 64
    assert form.note("fake_sinks") == "The model has heads of 64 channels, fewer than the sinks."
    panel.set_model([SlotShape(3, 32, 32)], 8192)
    sinks.slider.setValue(60)
    assert sinks.value() == 60, "from what does not suit every way leads out"
    sinks.slider.setValue(32)
    sinks.slider.setValue(40)
    assert sinks.value() == 32
    panel.set_model(None, None)
    sinks.slider.setValue(128)
    assert panel.config() == FakeConfig(fake_window=256, fake_sinks=128)


def test_a_method_without_presets_goes_by_its_own_name(panel: CachePanel) -> None:
    assert panel.title(KVCacheConfig("plain")) == KVCacheConfig("plain").label
    assert panel.title(FakeConfig(fake_bits=3)) == f"{FakeConfig.label} {CUSTOM}"
