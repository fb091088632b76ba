"""Labels and buttons that know their room."""

import pytest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from studio.ui import parts


def test_wrapped_words_are_as_high_as_they_are(qtbot: QtBot) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    words = parts.label("word " * 30, wrap=True)
    column = QVBoxLayout(holder)
    column.addWidget(words)
    column.addStretch(1)
    holder.show()
    heights = []
    for width in (600, 150, 600):
        holder.resize(width, 400)
        qtbot.waitUntil(lambda width=width: holder.width() == width)  # type: ignore[misc]
        heights.append(words.height())
    assert heights[0] == heights[2] < heights[1]
    words.setText("one")
    assert words.minimumHeight() < heights[0]


@pytest.mark.parametrize(("width", "whole"), [(500, True), (100, False)])
def test_a_chip_shortens_its_middle(qtbot: QtBot, width: int, whole: bool) -> None:
    chip = parts.Chip("Go there")
    qtbot.addWidget(chip)
    chip.show_text("A-very-long-name-of-a-model-4bit")
    chip.show()
    chip.resize(width, 28)
    assert (chip.text() == chip.whole_text()) is whole
    assert chip.sizeHint().width() > 150
    assert "…" in chip.text() or whole


def test_a_chip_at_its_own_width_is_whole(qtbot: QtBot) -> None:
    chip = parts.Chip("Go there")
    qtbot.addWidget(chip)
    chip.show()
    for name in ("SmolLM2-135M-Instruct", "SKVQ Balanced", "a", "gemma-3-12b-it-4bit"):
        chip.show_text(name)
        chip.resize(chip.sizeHint())
        assert chip.text() == name
