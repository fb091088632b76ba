"""Around the chat: settings, the keyboard sheet, the log, sleep and notices, names for the ear."""

import os
import sys

import pytest
from PySide6.QtCore import QProcess, Qt
from PySide6.QtGui import QAction, QTextCursor
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QScrollBar,
    QTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from studio.core.log import log_file
from studio.core.settings import DROP, Settings, load
from studio.core.store import Store
from studio.ui import background as background_module
from studio.ui import links
from studio.ui.below_prompt import SYSTEM_NOTES
from studio.ui.dialogs import IN_A_VIEW, KeyboardSheet, LogWindow, SettingsDialog
from studio.ui.fields import TextBlock
from studio.ui.search_line import SearchLine
from studio.ui.theme import Scheme, apply_theme, scheme_now, tokens_for
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import FakeEngine

CONTROLS = (
    QAbstractButton, QComboBox, QLineEdit, QPlainTextEdit, QTextEdit, QAbstractItemView, QAbstractSlider,
)  # fmt: skip


def unnamed(root: QWidget) -> list[str]:
    """Controls that can have the focus and say nothing to a screen reader."""
    found = []
    for control in root.findChildren(QWidget):
        above = [control.parentWidget(), control.parentWidget() and control.parentWidget().parentWidget()]
        inside_another = any(isinstance(w, QComboBox) for w in above) or isinstance(control, QScrollBar)
        # What Qt itself puts into its widgets is named by them.
        own = not control.objectName().startswith("qt_") and not inside_another
        if isinstance(control, CONTROLS) and own and not (control.accessibleName() or control.toolTip()):
            found.append(f"{type(control).__name__} in {type(control.parentWidget()).__name__}")
    return found


def test_every_control_of_the_window_has_a_name(loaded: MainWindow, engine: FakeEngine) -> None:
    loaded.chat.prompt.set_text("Why?")
    loaded.chat.prompt.submit()
    engine.started.emit("reply")
    text = "<think>hm</think>\n\nYes:\n```python\nx\n```\n"
    engine.play_text(text)
    engine.play_finished(text, "length")
    assert unnamed(loaded) == []


def test_every_control_of_the_dialogs_has_a_name(qtbot: QtBot, loaded: MainWindow) -> None:
    for dialog in (
        SettingsDialog(loaded, Settings(), ["Kept here."]),
        KeyboardSheet(loaded, loaded.actions()),
        LogWindow(loaded),
    ):
        qtbot.addWidget(dialog)
        assert unnamed(dialog) == [], dialog


def test_settings_are_found_by_their_words_and_hold_at_once(
    qtbot: QtBot, loaded: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SettingsDialog] = []

    def use(dialog: SettingsDialog) -> None:
        seen.append(dialog)
        dialog.search.setText("context FULL")
        assert not dialog.form.control("at_limit").parentWidget().isHidden()
        assert dialog.form.control("appearance").parentWidget().isHidden()
        dialog.search.setText("nothing of the kind")
        assert not dialog.nothing.isHidden()
        dialog.search.clear()
        dialog.changed.emit(Settings(at_limit=DROP, appearance="light"))

    monkeypatch.setattr(SettingsDialog, "exec", use)
    loaded.actions_.settings.trigger()
    assert seen and loaded.talk.settings.at_limit == DROP and scheme_now() == Scheme.Light
    store = Store(loaded.talk.store.path)
    assert load(store, Settings) == Settings(at_limit=DROP, appearance="light")
    store.close()


def test_what_saved_caches_take_is_shown_and_can_be_removed(
    qtbot: QtBot, loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def use(dialog: SettingsDialog) -> None:
        space = dialog.caches
        said.append(space.words.text())
        engine.caches_told.emit(12_340_000)
        said.append(space.words.text())
        qtbot.mouseClick(space.remove, Qt.MouseButton.LeftButton)
        assert engine.calls[-1] == ("remove_caches",) and not space.remove.isEnabled()
        engine.caches_told.emit(0)
        said.append(space.words.text())
        assert not space.remove.isEnabled()
        dialog.form.control("cache_limit").set_value(0.5)
        dialog.form._moved("cache_limit")
        assert engine.calls[-1] == ("remove_caches",)

    monkeypatch.setattr(SettingsDialog, "exec", use)
    loaded.settings.open()
    assert said == [
        "What saved caches take on disk is unknown as yet.",
        "Saved caches take 12.3 MB on disk, measured.",
        "No chat has a saved cache.",
    ]
    # The limit holds once the dialog is closed, not while a slider passes 0.
    assert engine.calls[-1] == ("keep_caches", loaded.talk.store.path, 500_000_000)


def test_the_system_prompt_of_new_chats_has_room_for_lines(qtbot: QtBot, loaded: MainWindow) -> None:
    dialog = SettingsDialog(loaded, Settings(system="Be brief."), [])
    qtbot.addWidget(dialog)
    dialog.show()
    told: list[Settings] = []
    dialog.changed.connect(told.append)
    block = dialog.form.control("system")
    assert isinstance(block, TextBlock) and block.value() == "Be brief."
    block.text.moveCursor(QTextCursor.MoveOperation.End)
    for key in (Qt.Key.Key_Return, Qt.Key.Key_A):
        qtbot.keyClick(block.text, key)
    assert told == [], "not with every letter"
    # As the button does that closes it.
    dialog.accept()
    assert told == [Settings(system="Be brief.\na")]
    assert block.text.height() >= 4 * block.text.fontMetrics().lineSpacing()


def test_the_button_that_empties_a_search_is_seen_in_both_schemes(qtbot: QtBot, qapp: QApplication) -> None:
    line = SearchLine("Search")
    qtbot.addWidget(line)
    button = line.findChild(QAbstractButton)
    for scheme in (Scheme.Dark, Scheme.Light, Scheme.Dark):
        apply_theme(qapp, scheme, 1.0)
        picture = button.icon().pixmap(64, 64).toImage()
        middle = picture.pixelColor(picture.width() // 2, picture.height() // 2)
        assert middle.name() == tokens_for(scheme).muted.lower()


def test_how_a_model_takes_a_system_prompt_is_said(loaded: MainWindow, engine: FakeEngine) -> None:
    settings = loaded.below_prompt.settings
    for manner, note in SYSTEM_NOTES.items():
        engine.play_loaded(manner=manner)
        assert settings.note.text() == note and settings.note.isHidden() == (not note)
    engine.unloaded.emit()
    assert settings.note.text() == ""


def test_the_sheet_has_every_key_of_the_window(qtbot: QtBot, loaded: MainWindow) -> None:
    sheet = KeyboardSheet(loaded, loaded.actions())
    qtbot.addWidget(sheet)
    said = {label.text() for label in sheet.findChildren(QLabel)}
    keyed = [action for action in loaded.actions() if not action.shortcut().isEmpty()]
    assert len(keyed) > 10 and {action.text().rstrip("…") for action in keyed} <= said
    assert {text for row in IN_A_VIEW for text in row} <= said
    keys = [action.shortcut().toString() for action in keyed]
    assert len(set(keys)) == len(keys)


def test_menus_have_the_platform_s_roles(loaded: MainWindow) -> None:
    actions, role = loaded.actions_, QAction.MenuRole
    assert (actions.settings.menuRole(), actions.about.menuRole(), actions.quit.menuRole()) == (
        role.PreferencesRole, role.AboutRole, role.QuitRole
    )  # fmt: skip


def test_the_log_window_follows_the_file(qtbot: QtBot, loaded: MainWindow) -> None:
    log_file().parent.mkdir(parents=True, exist_ok=True)
    log_file().write_text("first\n")
    window = LogWindow(loaded)
    qtbot.addWidget(window)
    assert window.text.toPlainText() == "first\n"
    with log_file().open("a") as file:
        file.write("second \x1b[31m\n")
    window.refresh()
    assert window.text.toPlainText() == "first\nsecond �[31m\n"


@pytest.mark.parametrize("begins", ["prefill", "side"])
def test_the_computer_stays_awake_for_a_reply_only(
    qtbot: QtBot, loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    monkeypatch.setattr(background_module, "awake_command", lambda: command)
    engine.state_changed.emit(begins)
    held = loaded.background._awake
    assert held is not None
    qtbot.waitUntil(lambda: held.state() == QProcess.ProcessState.Running)
    engine.state_changed.emit("generating")
    assert loaded.background._awake is held
    engine.state_changed.emit("idle")
    assert not loaded.background.is_awake() and held.state() == QProcess.ProcessState.NotRunning
    loaded.talk.settings = Settings(keep_awake=False)
    engine.state_changed.emit("prefill")
    assert not loaded.background.is_awake()


def test_the_system_s_tool_ends_with_this_process() -> None:
    command = background_module.awake_command()
    assert not command or any(str(os.getpid()) in part for part in command)


@pytest.mark.parametrize(("waited", "looked_at", "told"), [(60, False, 1), (60, True, 0), (1, False, 0)])
def test_the_end_of_a_long_wait_is_told_to_who_is_elsewhere(
    loaded: MainWindow,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    waited: int,
    looked_at: bool,
    told: int,
) -> None:
    said: list[str] = []
    background = loaded.background
    monkeypatch.setattr(background_module, "awake_command", list)
    monkeypatch.setattr(background, "_is_looked_at", lambda: looked_at)
    monkeypatch.setattr(background, "_tell", said.append)
    engine.state_changed.emit("prefill")
    background._since -= waited
    engine.state_changed.emit("generating")
    assert said == ["The prompt is read; the reply is being written."] * told


@pytest.mark.parametrize(
    ("address", "can_open"),
    [("https://example.org/a", True), ("file:///etc/passwd", False), ("javascript:alert(1)", False)],
)
def test_an_address_is_shown_whole_before_anything_opens(
    loaded: MainWindow, monkeypatch: pytest.MonkeyPatch, address: str, can_open: bool
) -> None:
    shown: list[tuple[str, list[str]]] = []
    opened: list[object] = []

    def look(box: QMessageBox) -> int:
        shown.append((box.informativeText(), [button.text() for button in box.buttons()]))
        return 0

    monkeypatch.setattr(QMessageBox, "exec", look)
    monkeypatch.setattr(links.QDesktopServices, "openUrl", opened.append)
    loaded.chat.link_clicked.emit(address)
    ((said, buttons),) = shown
    assert said == address and ("Open in browser" in buttons) is can_open
    assert opened == []
