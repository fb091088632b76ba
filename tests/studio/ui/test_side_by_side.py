"""Answers side by side: what is asked, what is marked, the table, and a column that becomes the setting."""

from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from studio.core.side_by_side import Answer
from studio.ui.differences import differences
from studio.ui.side_by_side import HEADS, SideBySideDialog
from studio.ui.window import MainWindow
from tests.studio.ui.comparisons import reply
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import FakeEngine
from veloxquant_mlx.config import KVCacheConfig

SMALL = FakeConfig(fake_bits=2)
PLAIN = FakeConfig()


def words(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[begin:end] for begin, end in spans]


@pytest.mark.parametrize(
    ("first", "other", "marked"),
    [
        ("the sky is blue", "the sky is blue", []),
        ("the sky is blue", "the sea is blue", ["sea"]),
        ("the sky is blue", "the sky is very very blue", ["very very"]),
        ("the sky is blue", "the sky", []),
        ("", "all of it", ["all of it"]),
        ("one, two", "one; two", [";"]),
    ],
)
def test_differences_are_the_words_the_first_has_not(first: str, other: str, marked: list[str]) -> None:
    assert words(other, differences(first, other)) == marked


@pytest.fixture
def dialog(loaded: MainWindow) -> SideBySideDialog:
    loaded.side.open()
    assert loaded.side.dialog is not None
    return loaded.side.dialog


def choose(dialog: SideBySideDialog, column: int, config: KVCacheConfig) -> None:
    box = dialog.columns[column].box
    box.setCurrentIndex(next(n for n in range(box.count()) if box.itemData(n) == config))


def run(dialog: SideBySideDialog, qtbot: QtBot) -> None:
    choose(dialog, 0, PLAIN)
    choose(dialog, 1, SMALL)
    dialog.prompt.setPlainText("why is the sky blue?")
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)


def answer(column: int, text: str, **told: Any) -> Answer:
    config = (PLAIN, SMALL)[column]
    return Answer(column, config, text, 4, **told)


def whole(column: int, text: str, counted: int, kl: float, speed: float) -> Answer:
    found = reply(0, ["a", "b", "c", "d"], [1, 1, 2 if column else 1, 1], kl=[kl] * 4).fidelity
    return answer(
        column, text, counted=counted, resident=counted + 1, reference=8_000_000,
        prefill_speed=90.0, decode_speed=speed, pieces=("a", "b", "c", "d"), fidelity=found,
    )  # fmt: skip


def cells(dialog: SideBySideDialog, column: str) -> list[str]:
    at = HEADS.index(column)
    return [dialog.table.item(row, at).text() for row in range(dialog.table.rowCount())]


def test_the_prompt_and_the_settings_go_to_the_engine(
    loaded: MainWindow, engine: FakeEngine, dialog: SideBySideDialog, qtbot: QtBot
) -> None:
    loaded.conversations.set_system("Be brief.")
    run(dialog, qtbot)
    name, turns, configs, sampling = engine.calls[-1]
    assert name == "side_by_side"
    assert turns == (("system", "Be brief."), ("user", "why is the sky blue?"))
    assert configs == (PLAIN, SMALL)
    assert sampling == loaded.talk.sampling
    assert dialog.running and dialog.button.text() == "Stop"
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    assert engine.calls[-1] == ("stop",)
    engine.answered.emit(None)
    assert not dialog.running


def test_answers_grow_in_their_columns_and_differences_are_marked(
    engine: FakeEngine, dialog: SideBySideDialog, qtbot: QtBot
) -> None:
    run(dialog, qtbot)
    engine.answered.emit(answer(0, "the sky", doing="Writing"))
    assert dialog.columns[0].view.toPlainText() == "the sky"
    assert dialog.columns[0].status.text() == "Writing"
    assert dialog.columns[1].status.text() == "Waits for its turn"
    engine.answered.emit(whole(0, "the sky is blue", 8_000_000, 0.0, 9.0))
    engine.answered.emit(whole(1, "the 🦊 sky was blue", 2_000_000, 0.03, 7.0))
    assert dialog.columns[0].marked() == []
    assert dialog.columns[1].marked() == ["🦊", "was"]
    assert dialog.columns[0].status.text() == "The uncompressed cache agrees at every token, measured"
    assert (
        dialog.columns[1].status.text() == "The uncompressed cache disagrees first at token 3, “c”, measured"
    )


def test_the_table_has_every_figure_and_sorts_by_value(
    engine: FakeEngine, dialog: SideBySideDialog, qtbot: QtBot
) -> None:
    run(dialog, qtbot)
    engine.answered.emit(whole(0, "x", 12_000_000, 0.0, 9.5))
    engine.answered.emit(whole(1, "y", 2_500_000, 0.03, 10.25))
    assert cells(dialog, "Column") == ["1", "2"]
    assert sorted(cells(dialog, "MB counted")) == ["12.00", "2.50"]
    at = HEADS.index("MB counted")
    header = dialog.table.horizontalHeader()
    where = header.sectionViewportPosition(at) + 4
    from PySide6.QtCore import QPoint

    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(where, header.height() // 2))
    first = cells(dialog, "MB counted")
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(where, header.height() // 2))
    assert {tuple(first), tuple(cells(dialog, "MB counted"))} == {("2.50", "12.00"), ("12.00", "2.50")}
    row = cells(dialog, "Column").index("2")
    told = [dialog.table.item(row, n).text() for n in range(len(HEADS))]
    assert told[2:] == ["0.030 nats", "75%", "2.50", "2.50", "8.00", "4", "90.0", "10.2"]


def test_a_column_becomes_the_setting_with_a_click(
    loaded: MainWindow, engine: FakeEngine, dialog: SideBySideDialog, qtbot: QtBot
) -> None:
    loaded.cache.choose(PLAIN)
    run(dialog, qtbot)
    assert not dialog.columns[1].use.isEnabled()
    engine.answered.emit(whole(1, "y", 2_500_000, 0.03, 10.0))
    qtbot.mouseClick(dialog.columns[1].use, Qt.MouseButton.LeftButton)
    assert loaded.cache.config() == SMALL
    assert engine.calls[-1] == ("configure", SMALL)


def test_an_empty_prompt_is_not_run(engine: FakeEngine, dialog: SideBySideDialog, qtbot: QtBot) -> None:
    dialog.prompt.setPlainText("  ")
    qtbot.mouseClick(dialog.button, Qt.MouseButton.LeftButton)
    assert "side_by_side" not in engine.names()
    assert dialog.note.text() == "Write a prompt first."


def test_closing_stops_what_runs(engine: FakeEngine, dialog: SideBySideDialog, qtbot: QtBot) -> None:
    run(dialog, qtbot)
    dialog.close()
    assert engine.calls[-1] == ("stop",)
