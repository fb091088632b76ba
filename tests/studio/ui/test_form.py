"""Declared fields become controls and come back as a configuration."""

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QAbstractSlider, QAbstractSpinBox, QLineEdit
from pytestqt.qtbot import QtBot

from studio.ui.controls import Segments, Switch, ValueSlider
from studio.ui.form import MethodForm
from tests.studio.ui.fake_cache import FakeConfig


@pytest.fixture
def form(qtbot: QtBot) -> MethodForm:
    made = MethodForm(FakeConfig)
    qtbot.addWidget(made)
    made.resize(262, 600)
    made.show()
    return made


def part(form: MethodForm, name: str, kind: type) -> Any:
    """The control of a kind inside a field's widget."""
    widget = form.control(name)
    return widget if isinstance(widget, kind) else widget.findChild(kind)


def test_it_starts_with_the_defaults_and_keeps_what_it_is_given(form: MethodForm) -> None:
    assert form.config() == FakeConfig()
    given = FakeConfig(head_dim=64, fake_bits=3, fake_limit=7, fake_schedule=(2, 1), fake_search=False)
    form.set_config(given)
    assert form.config() == given
    part(form, "fake_bits", ValueSlider).slider.setValue(0)
    assert form.config() == FakeConfig(
        head_dim=64, fake_bits=1, fake_limit=7, fake_schedule=(2, 1), fake_search=False
    )


def test_dragging_tells_every_step(qtbot: QtBot, form: MethodForm) -> None:
    slider = part(form, "fake_window", ValueSlider)
    seen: list[int] = []
    form.changed.connect(lambda config: seen.append(config.fake_window))
    for position in (4, 5, 6):
        slider.slider.setValue(position)
    assert seen == [80, 96, 112]
    assert slider.entry.value() == 112


def test_numbers_can_be_typed_and_stepped_by_keys(qtbot: QtBot, form: MethodForm) -> None:
    slider = part(form, "fake_window", ValueSlider)
    slider.entry.selectAll()
    qtbot.keyClicks(slider.entry, "128")
    qtbot.keyClick(slider.entry, Qt.Key.Key_Return)
    assert form.config().fake_window == 128  # type: ignore[attr-defined]
    qtbot.keyClick(slider.slider, Qt.Key.Key_Right)
    assert form.config().fake_window == 144  # type: ignore[attr-defined]


def test_fractions_keep_their_step(form: MethodForm) -> None:
    part(form, "fake_search", Switch).setChecked(False)
    part(form, "fake_share", ValueSlider).slider.setValue(3)
    assert form.config().fake_share == pytest.approx(0.65)  # type: ignore[attr-defined]


def test_an_inactive_field_says_why(form: MethodForm) -> None:
    assert not form.control("fake_share").isEnabled()
    assert form.note("fake_share") == "Search is on: the share is found."
    part(form, "fake_search", Switch).click()
    assert form.control("fake_share").isEnabled()
    assert form.note("fake_share") == ""


def test_a_refused_combination_is_said_below_the_control(form: MethodForm) -> None:
    problems: list[str] = []
    form.problem.connect(problems.append)
    part(form, "fake_window", ValueSlider).slider.setValue(0)
    before = form.config()
    segments = part(form, "fake_group", Segments)
    segments.set_value(64)
    segments.chosen.emit(64)
    assert form.note("fake_group") == "Group must not be larger than the window."
    assert problems[-1] == form.note("fake_group")
    assert form.config() == before
    segments.set_value(16)
    segments.chosen.emit(16)
    assert form.note("fake_group") == "" and problems[-1] == ""


def test_choices_move_with_the_arrow_keys(qtbot: QtBot, form: MethodForm) -> None:
    segments = part(form, "fake_group", Segments)
    qtbot.keyClick(segments, Qt.Key.Key_Right)
    assert form.config().fake_group == 64  # type: ignore[attr-defined]
    qtbot.keyClick(segments, Qt.Key.Key_Right)
    assert form.config().fake_group == 64  # type: ignore[attr-defined]


def test_lists_are_written_and_nonsense_is_refused(qtbot: QtBot, form: MethodForm) -> None:
    line = part(form, "fake_schedule", QLineEdit)
    line.setText("4, 2 1")
    line.editingFinished.emit()
    assert form.config().fake_schedule == (4, 2, 1)  # type: ignore[attr-defined]
    line.setText("many")
    line.editingFinished.emit()
    assert "Schedule must be" in form.note("fake_schedule")


def test_an_optional_number_is_none_until_switched_on(form: MethodForm) -> None:
    switch = part(form, "fake_limit", Switch)
    switch.click()
    assert form.config().fake_limit is not None  # type: ignore[attr-defined]
    switch.click()
    assert form.config().fake_limit is None  # type: ignore[attr-defined]


def test_every_control_has_a_name_and_a_description(form: MethodForm) -> None:
    kinds = (QAbstractButton, QAbstractSlider, QAbstractSpinBox)
    controls = [c for kind in kinds for c in form.findChildren(kind)]
    assert len(controls) > 10
    for control in controls:
        assert control.accessibleName(), control
        assert control.accessibleDescription(), control.accessibleName()


def test_the_wheel_scrolls_past_a_slider(qtbot: QtBot, form: MethodForm) -> None:
    from PySide6.QtCore import QPoint, QPointF
    from PySide6.QtGui import QWheelEvent

    slider = part(form, "fake_bits", ValueSlider)
    for target in (slider.slider, slider.entry):
        event = QWheelEvent(
            QPointF(5, 5), QPointF(5, 5), QPoint(0, 120), QPoint(0, 120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        target.wheelEvent(event)
        assert not event.isAccepted()
    assert form.config() == FakeConfig()
