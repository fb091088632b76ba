"""Keeping, renaming, deleting, carrying and copying settings from the panel."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from studio.core.presets import OwnPreset, read_preset, write_preset
from studio.ui.applying import Standing
from studio.ui.cache_panel import CachePanel
from studio.ui.preset_menu import NameDialog
from tests.studio.ui.test_cache_panel import choose
from tests.tiny import tiny_folder, tiny_model
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.config import KVCacheConfig, methods

MINE = KVCacheConfig("skvq", skvq_bits_key=6, skvq_window=16)


@pytest.fixture
def panel(qtbot: QtBot) -> CachePanel:
    made = CachePanel()
    qtbot.addWidget(made)
    made.resize(300, 620)
    made.show()
    made.set_methods(methods())
    made.set_standing(Standing(made.config()))
    show(made, MINE)
    return made


def show(panel: CachePanel, config: KVCacheConfig) -> None:
    panel.set_config(config)
    panel._settle()


def answer(qtbot: QtBot, text: str) -> list[str]:
    """Types into the dialog that comes next and saves; gives what it says before."""
    said: list[str] = []

    def type_it() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, NameDialog)
        dialog.line.selectAll()
        qtbot.keyClicks(dialog.line, text)
        said.append(dialog.why.text())
        if dialog.save.isEnabled():
            qtbot.mouseClick(dialog.save, Qt.MouseButton.LeftButton)
        else:
            qtbot.keyClick(dialog, Qt.Key.Key_Escape)

    QTimer.singleShot(0, type_it)
    return said


def offered(panel: CachePanel) -> list[str]:
    return [
        panel.preset_box.itemText(i) for i in range(panel.preset_box.count()) if panel.preset_box.itemText(i)
    ]


def keep(qtbot: QtBot, panel: CachePanel, name: str = "Mine") -> None:
    answer(qtbot, name)
    panel.menu.save.trigger()


def test_settings_are_kept_under_a_name_beside_the_built_in_ones(qtbot: QtBot, panel: CachePanel) -> None:
    assert panel.preset_box.currentText() == "Custom"
    keep(qtbot, panel)
    assert panel.preset_box.currentText() == "Mine" and offered(panel)[-1] == "Mine"
    assert not panel.preset_box.itemIcon(panel.preset_box.currentIndex()).isNull()
    assert panel.preset_box.itemIcon(0).isNull(), "only one's own have a mark"
    assert panel.title(MINE) == "SKVQ Mine"
    assert not panel.menu.save.isEnabled(), "it is kept already"
    choose(panel, "Smallest")
    choose(panel, "Mine")
    assert panel.config() == MINE
    again = CachePanel()
    qtbot.addWidget(again)
    again.set_methods(methods())
    assert "Mine" in offered(again)


def test_a_name_that_is_taken_is_said_while_it_is_typed(qtbot: QtBot, panel: CachePanel) -> None:
    said = answer(qtbot, "balanced")
    panel.menu.save.trigger()
    assert said == ["SKVQ has a preset balanced already: choose another name."]
    assert "Custom" in offered(panel)


def test_a_preset_is_renamed(qtbot: QtBot, panel: CachePanel) -> None:
    assert not panel.menu.rename.isEnabled()
    keep(qtbot, panel)
    answer(qtbot, "Yours")
    panel.menu.rename.trigger()
    assert panel.preset_box.currentText() == "Yours" and "Mine" not in offered(panel)


def test_a_deleted_preset_comes_back_with_undo(qtbot: QtBot, panel: CachePanel, home: Path) -> None:
    keep(qtbot, panel)
    file = home / "data" / "presets" / "mine.json"
    before = file.read_bytes()
    panel.menu.delete.trigger()
    assert panel.preset_box.currentText() == "Custom" and not file.exists()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow)
    qtbot.keyClick(panel.method_box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert panel.preset_box.currentText() == "Mine" and file.read_bytes() == before
    panel.menu.redo.trigger()
    assert "Mine" not in offered(panel) and not file.exists()


def test_a_preset_travels_as_a_file(
    qtbot: QtBot, panel: CachePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(qtbot, panel)
    path = tmp_path / "shared.json"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    panel.menu.export.trigger()
    assert read_preset(path).config == MINE
    assert panel.notice.sentence == f"Preset saved to {path}."
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(path)], ""))
    panel.menu.import_.trigger()
    assert panel.notice.sentence == "Imported shared (SKVQ)."
    assert offered(panel)[-2:] == ["Mine", "shared"]


def test_a_hostile_file_is_refused_and_the_others_come(
    panel: CachePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    write_preset(OwnPreset("Good", MINE), good)
    record = json.loads(good.read_text())
    record["values"]["skvq_bit_key"] = record["values"].pop("skvq_bits_key")
    bad.write_text(json.dumps(record))
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(bad), str(good)], ""))
    panel.menu.import_.trigger()
    assert panel.notice.sentence.startswith(
        "bad.json is not a preset that can be used: skvq has no parameter 'skvq_bit_key'; nearest are"
    )
    assert "Good" in offered(panel)


@pytest.mark.parametrize("preset", [None, "Smallest"])
def test_the_copied_python_makes_the_same_cache(panel: CachePanel, preset: str | None) -> None:
    if preset:
        choose(panel, preset)
    panel.menu.python.trigger()
    made: dict[str, Any] = {"model": tiny_model("llama")}
    exec(compile(QGuiApplication.clipboard().text(), "copied", "exec"), made)
    assert made["config"] == panel.config()
    assert [cache.config for cache in made["cache"]] == [panel.config()] * 3


@pytest.mark.parametrize("preset", [None, "Smallest"])
def test_the_copied_command_answers_through_the_same_cache(
    panel: CachePanel, preset: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if preset:
        choose(panel, preset)
    folder = tiny_folder(tmp_path / "tiny llama")
    panel.set_model(None, None, str(folder))
    panel.menu.command.trigger()
    program, *arguments = shlex.split(QGuiApplication.clipboard().text())
    assert program == "veloxquant"
    assert main([*arguments, "--max-tokens", "2", "--json"]) == 0
    config = panel.config()
    assert config is not None
    assert json.loads(capsys.readouterr().out)["config"] == config.as_dict()
