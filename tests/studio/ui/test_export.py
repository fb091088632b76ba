"""Asking for a report's form and place, with real clicks."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from studio.ui import export
from studio.ui.export import FORMS, ExportDialog, ask_export

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def dialog(qtbot: QtBot) -> ExportDialog:
    made = ExportDialog()
    qtbot.addWidget(made)
    made.show()
    return made


def choose(qtbot: QtBot, dialog: ExportDialog, ending: str) -> None:
    """With the keyboard, as the list opens differently on every system."""
    dialog.form.setFocus()
    qtbot.keyClick(dialog.form, Qt.Key.Key_Home)
    for _ in range(list(FORMS).index(ending)):
        qtbot.keyClick(dialog.form, Qt.Key.Key_Down)


def test_a_page_without_words_is_what_comes_of_two_clicks(qtbot: QtBot, dialog: ExportDialog) -> None:
    qtbot.mouseClick(dialog.save, LEFT)
    assert (dialog.result(), dialog.ending(), dialog.with_transcript()) == (1, "html", False)
    assert "stay on this machine" in dialog.private.text()


@pytest.mark.parametrize("ending", list(FORMS))
def test_every_form_says_what_it_is_good_for(qtbot: QtBot, dialog: ExportDialog, ending: str) -> None:
    choose(qtbot, dialog, ending)
    assert dialog.ending() == ending
    assert dialog.good_for.text() == FORMS[ending][1]


def test_a_table_has_no_words(qtbot: QtBot, dialog: ExportDialog) -> None:
    qtbot.mouseClick(dialog.transcript, LEFT)
    assert dialog.with_transcript()
    choose(qtbot, dialog, "csv")
    assert not dialog.transcript.isEnabled() and not dialog.with_transcript()
    choose(qtbot, dialog, "json")
    assert dialog.with_transcript()


@pytest.mark.parametrize(("with_transcript", "typed"), [(True, "/x/mine"), (False, "/x/mine.html")])
def test_the_answer_is_a_path_and_a_choice(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, with_transcript: bool, typed: str
) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    proposed: list[str] = []

    def run(dialog: ExportDialog) -> int:
        dialog.show()
        if with_transcript:
            qtbot.mouseClick(dialog.transcript, LEFT)
        qtbot.mouseClick(dialog.save, LEFT)
        return dialog.result()

    def ask(_parent: QWidget, _title: str, path: str, kinds: str) -> tuple[str, str]:
        proposed.append(path)
        assert kinds == "Page (*.html)"
        return typed, ""

    monkeypatch.setattr(ExportDialog, "exec", run)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    assert ask_export(parent, "a/model: x") == ("/x/mine.html", with_transcript)
    assert Path(proposed[0]).name.startswith("a-model--x-") and proposed[0].endswith(".html")


def test_no_answer_is_none(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)

    def give_up(dialog: ExportDialog) -> int:
        dialog.show()
        qtbot.mouseClick(dialog.cancel, LEFT)
        return dialog.result()

    monkeypatch.setattr(ExportDialog, "exec", give_up)
    assert ask_export(parent, "") is None
    monkeypatch.setattr(ExportDialog, "exec", lambda self: 1)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))
    assert export.ask_export(parent, "") is None
