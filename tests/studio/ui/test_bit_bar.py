"""A list of numbers whose columns are pulled up and down."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QColor
from pytestqt.qtbot import QtBot

from studio.ui.bit_bar import BitBar
from studio.ui.theme import Scheme, apply_theme, contrast, kind_colour
from tests.studio.ui.test_form import move

SCHEDULE = (8, 4, 2, 1, 1, 0, 0, 0)


@pytest.fixture
def bar(qtbot: QtBot) -> BitBar:
    made = BitBar("Schedule", "bits", 0, 8, "Bits per band.")
    qtbot.addWidget(made)
    made.set_value(SCHEDULE)
    made.resize(264, made.sizeHint().height())
    made.show()
    qtbot.waitExposed(made)
    return made


def spot(bar: BitBar, column: int, value: int) -> QPoint:
    """Where the mouse has to be for a column to take a value."""
    x = round((column + 0.5) * bar.row.width() / len(bar.row.columns))
    return QPoint(x, round(1.5 + (bar.row.height() - 3) * (1 - value / 8)))


def test_it_shows_what_it_is_given_without_a_signal(qtbot: QtBot, bar: BitBar) -> None:
    with qtbot.assertNotEmitted(bar.changed):
        bar.set_value((5, 4, 3))
    assert bar.value() == (5, 4, 3) and len(bar.row.columns) == 3
    assert bar.unit.text() == "4 bits"
    bar.set_value(SCHEDULE)
    assert bar.value() == SCHEDULE


def test_a_press_sets_a_column_and_a_drag_paints_over_the_others(qtbot: QtBot, bar: BitBar) -> None:
    seen: list[tuple[int, ...]] = []
    held: list[bool] = []
    bar.changed.connect(seen.append)
    bar.changed.connect(lambda _: held.append(bar.dragging()))
    qtbot.mousePress(bar.row, Qt.MouseButton.LeftButton, pos=spot(bar, 1, 6))
    assert bar.value() == (8, 6, 2, 1, 1, 0, 0, 0)
    for column, value in ((1, 7), (2, 5), (3, 3)):
        move(bar.row, spot(bar, column, value))
    with qtbot.waitSignal(bar.released):
        qtbot.mouseRelease(bar.row, Qt.MouseButton.LeftButton, pos=spot(bar, 3, 3))
    assert bar.value() == seen[-1] == (8, 7, 5, 3, 1, 0, 0, 0)
    assert all(held) and not bar.dragging()
    move(bar.row, spot(bar, 0, 1))
    assert bar.value()[0] == 8, "nothing is held any more"


def test_a_drag_beyond_the_edge_ends_at_the_ends(qtbot: QtBot, bar: BitBar) -> None:
    qtbot.mousePress(bar.row, Qt.MouseButton.LeftButton, pos=spot(bar, 7, 4))
    move(bar.row, QPoint(bar.row.width() + 500, -500))
    assert bar.value()[7] == 8
    move(bar.row, QPoint(-500, bar.row.height() + 500))
    assert bar.value()[0] == 0
    qtbot.mouseRelease(bar.row, Qt.MouseButton.LeftButton)


def test_keys_change_a_column_and_lead_to_its_neighbours(qtbot: QtBot, bar: BitBar) -> None:
    columns = bar.row.columns
    columns[1].setFocus()
    for key, value in (
        (Qt.Key.Key_Up, 5), (Qt.Key.Key_Down, 4), (Qt.Key.Key_7, 7), (Qt.Key.Key_9, 8), (Qt.Key.Key_Home, 0),
        (Qt.Key.Key_End, 8), (Qt.Key.Key_PageDown, 6),
    ):  # fmt: skip
        qtbot.keyClick(columns[1], key)
        assert bar.value() == (8, value, 2, 1, 1, 0, 0, 0), key
    qtbot.keyClick(columns[1], Qt.Key.Key_Right)
    assert columns[2].hasFocus()
    for _ in range(3):
        qtbot.keyClick(bar.row.columns[0], Qt.Key.Key_Left)
    assert bar.value()[2] == 2, "left and right change nothing"


def test_a_screen_reader_finds_a_slider_per_column(bar: BitBar) -> None:
    for index, column in enumerate(bar.row.columns):
        told = QAccessible.queryAccessibleInterface(column)
        assert told.role() == QAccessible.Role.Slider
        assert told.text(QAccessible.Text.Name) == f"Schedule, bits, {index + 1} of 8"
        assert told.text(QAccessible.Text.Description) == "Bits per band."
        assert told.valueInterface().currentValue() == SCHEDULE[index]


@pytest.mark.parametrize("scheme", [Scheme.Dark, Scheme.Light])
def test_columns_are_filled_to_their_values(qapp, bar: BitBar, scheme: Scheme) -> None:  # type: ignore[no-untyped-def]
    apply_theme(qapp, scheme, 1.0)
    image = bar.row.grab().toImage()
    fill = kind_colour("codes", scheme)
    frame = bar.row.height() - 3
    for index, value in enumerate(SCHEDULE):
        x = spot(bar, index, 0).x() - 10
        filled = sum(image.pixelColor(x, y) == fill for y in range(image.height()))
        assert abs(filled - value / 8 * frame) <= 2, index
    ink = {image.pixelColor(x, y).name() for x in range(4, 26) for y in range(4, 20)}
    assert max(contrast(colour, QColor(fill).name()) for colour in ink) >= 4.5
