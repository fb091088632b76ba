"""Declared fields become controls and come back as a configuration."""

from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QLineEdit,
    QSlider,
    QToolTip,
    QWidget,
)
from pytestqt.qtbot import QtBot

from studio.ui.bit_bar import BitBar
from studio.ui.controls import Segments, Switch
from studio.ui.fields import OrAutomatic, ValueSlider
from studio.ui.form import MethodForm
from tests.studio.ui.fake_cache import FakeConfig


@pytest.fixture
def form(qtbot: QtBot) -> MethodForm:
    made = MethodForm(FakeConfig)
    qtbot.addWidget(made)
    made.resize(262, 600)
    made.show()
    return made


def drag(qtbot: QtBot, slider: QSlider, begin: float, end: float) -> None:
    """Take the handle at a share of its way and pull it to another, in steps of a hand."""
    span, y = slider.width() - 14, slider.height() // 2
    slider.setValue(round(begin * slider.maximum()))
    at = 7 + round(span * slider.value() / slider.maximum())
    qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPoint(at, y))
    goal = 7 + round(span * end)
    for step in range(1, 13):
        move(slider, QPoint(at + (goal - at) * step // 12, y))
    qtbot.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=QPoint(goal, y))


def move(widget: QWidget, at: QPoint) -> None:
    """The mouse moves with its button down."""
    held = Qt.MouseButton.LeftButton
    place = QPointF(at)
    event = QMouseEvent(
        QEvent.Type.MouseMove, place, QPointF(widget.mapToGlobal(at)), held, held,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(widget, event)


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


def test_a_choice_that_cannot_be_is_not_taken_and_says_which_other_forbids_it(
    qtbot: QtBot, form: MethodForm
) -> None:
    form.set_config(FakeConfig(fake_window=16))
    before = form.config()
    segments = part(form, "fake_group", Segments)
    button = next(b for b in segments.findChildren(QAbstractButton) if b.text() == "64")
    with qtbot.assertNotEmitted(form.changed):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert form.note("fake_group") == "Group must not be larger than the Window of 16."
    assert form.config() == before and segments.value() == 32
    other = next(b for b in segments.findChildren(QAbstractButton) if b.text() == "16")
    qtbot.mouseClick(other, Qt.MouseButton.LeftButton)
    assert form.note("fake_group") == "" and form.config().fake_group == 16  # type: ignore[attr-defined]


def test_a_drag_stops_at_the_bound_and_names_the_other_field(qtbot: QtBot, form: MethodForm) -> None:
    form.set_config(FakeConfig(fake_window=128, fake_sinks=40))
    seen: list[int] = []
    form.changed.connect(lambda config: seen.append(config.fake_window))
    slider = part(form, "fake_window", ValueSlider)
    drag(qtbot, slider.slider, 0.5, 0.0)
    assert form.config().fake_window == slider.value() == 48  # type: ignore[attr-defined]
    assert min(seen) == 48 and slider.slider.value() == 2
    assert form.note("fake_window") == "Sinks must be at most Window (32)."
    qtbot.keyClick(slider.slider, Qt.Key.Key_Right)
    assert form.note("fake_window") == "" and form.config().fake_window == 64  # type: ignore[attr-defined]


def test_a_typed_number_that_cannot_be_becomes_the_nearest_that_can(qtbot: QtBot, form: MethodForm) -> None:
    form.set_config(FakeConfig(fake_window=64, fake_sinks=4))
    sinks = part(form, "fake_sinks", ValueSlider)
    sinks.entry.selectAll()
    qtbot.keyClicks(sinks.entry, "99")
    qtbot.keyClick(sinks.entry, Qt.Key.Key_Return)
    assert form.config().fake_sinks == sinks.value() == 64  # type: ignore[attr-defined]
    assert form.note("fake_sinks") == "Sinks must be at most Window (64)."


def test_choices_move_with_the_arrow_keys(qtbot: QtBot, form: MethodForm) -> None:
    segments = part(form, "fake_group", Segments)
    segments.setFocus()
    qtbot.keyClick(segments, Qt.Key.Key_Right)
    assert form.config().fake_group == 64  # type: ignore[attr-defined]
    qtbot.keyClick(segments, Qt.Key.Key_Right)
    assert form.config().fake_group == 64  # type: ignore[attr-defined]


def test_lists_without_a_range_are_written_and_nonsense_is_refused(qtbot: QtBot, form: MethodForm) -> None:
    line = part(form, "fake_marks", QLineEdit)
    line.selectAll()
    qtbot.keyClicks(line, "4, 2 1")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert form.config().fake_marks == (4, 2, 1)  # type: ignore[attr-defined]
    line.selectAll()
    qtbot.keyClicks(line, "many")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert form.note("fake_marks") == "Marks must be a list of whole numbers, not 'many'."
    assert line.text() == "4, 2, 1"


def test_an_optional_number_is_automatic_until_it_is_taken_over(qtbot: QtBot, form: MethodForm) -> None:
    limit = part(form, "fake_limit", OrAutomatic)
    assert limit.switch.isChecked() and not limit.inner.slider.isVisible()
    qtbot.mouseClick(limit.switch, Qt.MouseButton.LeftButton)
    assert limit.inner.slider.isVisible()
    assert form.config().fake_limit == 10  # type: ignore[attr-defined]
    qtbot.keyClick(limit.inner.slider, Qt.Key.Key_Right)
    assert form.config().fake_limit == 11  # type: ignore[attr-defined]
    qtbot.mouseClick(limit.switch, Qt.MouseButton.LeftButton)
    assert form.config().fake_limit is None  # type: ignore[attr-defined]
    qtbot.mouseClick(limit.switch, Qt.MouseButton.LeftButton)
    assert form.config().fake_limit == 11, "the value is kept"  # type: ignore[attr-defined]


def test_a_list_or_a_word_is_a_bar_with_a_switch(qtbot: QtBot, form: MethodForm) -> None:
    bar = part(form, "fake_schedule", OrAutomatic)
    assert not bar.switch.isChecked() and bar.inner.row.isVisible()
    qtbot.mouseClick(bar.switch, Qt.MouseButton.LeftButton)
    assert form.config().fake_schedule == "auto"  # type: ignore[attr-defined]
    assert not bar.inner.row.isVisible()
    form.set_config(FakeConfig(fake_schedule=(3, 2, 1)))
    assert bar.inner.row.isVisible() and bar.value() == (3, 2, 1)
    column = part(form, "fake_schedule", BitBar).row.columns[1]
    qtbot.keyClick(column, Qt.Key.Key_Up)
    assert form.config().fake_schedule == (3, 3, 1)  # type: ignore[attr-defined]


def test_every_control_has_a_name_and_a_description(form: MethodForm) -> None:
    kinds = (QAbstractButton, QAbstractSlider, QAbstractSpinBox)
    controls = [c for kind in kinds for c in form.findChildren(kind)]
    assert len(controls) > 10
    for control in controls:
        assert control.accessibleName(), control
        assert control.accessibleDescription(), control.accessibleName()


def test_the_wheel_scrolls_past_a_slider(qtbot: QtBot, form: MethodForm) -> None:
    slider = part(form, "fake_bits", ValueSlider)
    for target in (slider.slider, slider.entry):
        event = QWheelEvent(
            QPointF(5, 5), QPointF(5, 5), QPoint(0, 120), QPoint(0, 120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        target.wheelEvent(event)
        assert not event.isAccepted()
    assert form.config() == FakeConfig()


def test_letting_go_is_told_once_and_a_drag_is_known_while_it_lasts(qtbot: QtBot, form: MethodForm) -> None:
    slider = part(form, "fake_bits", ValueSlider).slider
    held: list[bool] = []
    let_go: list[bool] = []
    form.changed.connect(lambda _: held.append(form.dragging()))
    form.released.connect(lambda: let_go.append(form.dragging()))
    drag(qtbot, slider, 0.4, 1.0)
    assert form.config().fake_bits == 8  # type: ignore[attr-defined]
    assert held[-4:] == [True] * 4 and let_go == [False]


def test_help_comes_with_the_keyboard(qtbot: QtBot, form: MethodForm) -> None:
    slider = part(form, "fake_window", ValueSlider).slider
    slider.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(lambda: QToolTip.text() == "Rows.")
    QToolTip.hideText()


def test_undo_in_an_entry_is_left_to_the_panel(form: MethodForm) -> None:
    for entry in (part(form, "fake_window", ValueSlider).entry, part(form, "fake_marks", QLineEdit)):
        event = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        event.ignore()
        QApplication.sendEvent(entry, event)
        assert not event.isAccepted()
