"""Asking for a report's place."""

import pytest
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from studio.ui import export


@pytest.mark.parametrize("with_transcript", [True, False])
def test_the_answer_is_a_path_and_a_choice(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, with_transcript: bool
) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    proposed: list[str] = []

    def run(dialog: export.ExportDialog) -> int:
        dialog.transcript.setChecked(with_transcript)
        return QDialog.DialogCode.Accepted.value

    def ask(_parent: QWidget, _title: str, path: str, _kinds: str) -> tuple[str, str]:
        proposed.append(path)
        return path, ""

    monkeypatch.setattr(export.ExportDialog, "exec", run)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    assert export.ask_export(parent, "a/model: x") == (proposed[0], with_transcript)
    assert "/a-model--x-" in proposed[0] and proposed[0].endswith(".json")


def test_no_answer_is_none(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    monkeypatch.setattr(export.ExportDialog, "exec", lambda self: QDialog.DialogCode.Rejected.value)
    assert export.ask_export(parent, "") is None
    monkeypatch.setattr(export.ExportDialog, "exec", lambda self: QDialog.DialogCode.Accepted.value)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))
    assert export.ask_export(parent, "") is None
