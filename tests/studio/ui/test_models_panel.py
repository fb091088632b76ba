"""The list of models and the commands it gives."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from studio.core.fit import FITS, TIGHT, TOO_LARGE, Fit
from studio.ui.downloads import Download
from studio.ui.model_row import ROW, row_text
from studio.ui.models_panel import GET_STARTER, ModelsPanel
from studio.ui.theme import Scheme, apply_theme
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import MODELS, STARTER, FakeEngine


@pytest.fixture
def panel(qtbot: QtBot) -> ModelsPanel:
    made = ModelsPanel()
    qtbot.addWidget(made)
    made.resize(216, 480)
    made.show()
    return made


def rows(panel: ModelsPanel) -> list[str]:
    return [panel.list.item(i).data(ROW).name for i in range(panel.list.count())]


def test_without_models_the_starter_is_offered(qtbot: QtBot, panel: ModelsPanel) -> None:
    assert rows(panel) == [] and not panel.load_button.isEnabled()
    panel.set_models([])
    assert rows(panel) == ["Starter model"]
    assert panel.load_button.accessibleName() == GET_STARTER
    with qtbot.waitSignal(panel.starter_requested):
        panel.load_button.click()


def test_the_starter_comes_first_and_broken_ones_last(panel: ModelsPanel) -> None:
    panel.set_models(list(reversed(MODELS)))
    assert rows(panel)[0] == STARTER.name and rows(panel)[-1] == "Llama-3.2-1B-Instruct"
    panel.set_models(MODELS[1:])
    assert rows(panel)[0] == "Starter model"


def test_a_row_says_what_the_model_is() -> None:
    assert row_text(STARTER, loaded=False).detail == "4.5-bit, 98 MB, context 8,192, llama, 30 KV slots"
    assert row_text(STARTER, loaded=True).detail.startswith("Loaded: ")
    assert "8 of 48 slots hold KV" in row_text(MODELS[2], loaded=False).detail
    assert row_text(MODELS[3], loaded=False).detail == MODELS[3].problem
    unknown = replace(STARTER, weight_bits=None, kv_slots=None, slots=None, context=None)
    assert "0" not in row_text(unknown, loaded=False).detail.replace("98 MB", "")
    assert "no KV slots" in row_text(replace(STARTER, kv_slots=0), loaded=False).detail


@pytest.mark.parametrize("scale", [1.0, 1.6])
def test_no_button_s_words_are_cut(qtbot: QtBot, qapp: QApplication, scale: float) -> None:
    apply_theme(qapp, Scheme.Dark, scale)
    # As the window makes it, at the size it was drawn for.
    window = MainWindow(FakeEngine())
    qtbot.addWidget(window)
    window.resize(1280, 800)
    with qtbot.waitExposed(window):
        window.show()
    window.models.set_models(MODELS)
    window.models.set_loaded(STARTER)
    buttons = (window.models.load_button, window.models.plan_button, window.models.unload_button)
    assert all(button.isVisible() and button.width() >= button.sizeHint().width() for button in buttons)


def test_return_loads_the_selected_model(qtbot: QtBot, panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    panel.list.setCurrentRow(1)
    with qtbot.waitSignal(panel.load_requested) as loading:
        qtbot.keyClick(panel.list, Qt.Key.Key_Return)
    assert loading.args == [str(MODELS[1].path)]


def test_a_gguf_is_imported(qtbot: QtBot, panel: ModelsPanel) -> None:
    panel.set_models([STARTER, replace(STARTER, path=Path("/m/x.gguf"), name="x", source="", format="gguf")])
    panel.list.setCurrentRow(1)
    with qtbot.waitSignal(panel.import_requested) as importing:
        panel.load_button.click()
    assert importing.args == ["/m/x.gguf"]


def test_a_broken_model_cannot_be_loaded(panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    panel.list.setCurrentRow(3)
    assert not panel.load_button.isEnabled()


def test_progress_can_be_cancelled_and_blocks_the_rest(qtbot: QtBot, panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    panel.set_progress(0.42, "Loading weights")
    assert panel.is_busy() and panel.progress.bar.value() == 420
    assert not panel.load_button.isEnabled()
    with qtbot.waitSignal(panel.cancel_requested):
        panel.progress.cancel.click()
    panel.set_progress(None, "Checking")
    assert panel.progress.bar.maximum() == 0
    panel.show_error("The file ends too early; download it again.", "details")
    assert not panel.is_busy() and panel.load_button.isEnabled()
    assert panel.notice.sentence == "The file ends too early; download it again."
    panel.set_progress(0.0, "Again")
    assert panel.notice.sentence == ""


def test_the_loaded_one_is_marked_and_can_be_unloaded(qtbot: QtBot, panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    assert not panel.unload_button.isVisible()
    panel.set_loaded(STARTER)
    assert panel.list.item(0).data(ROW).loaded
    assert not panel.load_button.isEnabled()
    with qtbot.waitSignal(panel.unload_requested):
        panel.unload_button.click()


def test_a_model_from_elsewhere_joins_the_list(panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    panel.set_loaded(replace(STARTER, path=Path("/elsewhere"), name="mine", source="opened"))
    assert "mine" in rows(panel)
    assert panel.selected_path() == "/elsewhere"


def test_everything_has_a_name(panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    for button in panel.findChildren(QAbstractButton):
        assert button.accessibleName()
    assert panel.list.item(0).data(Qt.ItemDataRole.AccessibleTextRole).startswith(STARTER.name)


def test_a_search_leaves_rows_that_have_all_words(panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    panel.search.setText("8B qwen")
    shown = [i for i in range(panel.list.count()) if not panel.list.item(i).isHidden()]
    assert [panel.list.item(i).data(ROW).name for i in shown] == ["Qwen3-8B-4bit"]
    assert not panel.nothing.isVisible()
    panel.search.setText("mistral")
    assert panel.nothing.isVisible()
    panel.set_models(MODELS)
    assert all(panel.list.item(i).isHidden() for i in range(panel.list.count()))
    panel.search.clear()
    assert not panel.nothing.isVisible() and not panel.list.item(0).isHidden()


def test_those_used_last_come_first(panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    panel.list.setCurrentRow(0)
    panel.set_recent([str(MODELS[2].path), str(MODELS[1].path)])
    assert rows(panel) == [MODELS[2].name, MODELS[1].name, STARTER.name, MODELS[3].name]
    assert panel.selected_path() == str(STARTER.path)


@pytest.mark.parametrize("state", [FITS, TIGHT, TOO_LARGE])
def test_fit_and_plan_are_said_in_words(panel: ModelsPanel, state: str) -> None:
    panel.set_models(MODELS)
    fit = Fit(state, f"{state} in short", f"{state} in a sentence.", 100)
    panel.set_assessment(lambda info: (fit, "All 30 slots compressed."))
    row = panel.list.item(0).data(ROW)
    assert [text for text, _ in row.lines(selected=False)][1:] == [f"{state} in short"]
    assert [text for text, _ in row.lines(selected=True)][1:] == [
        f"{state} in a sentence.", "All 30 slots compressed.",
    ]  # fmt: skip
    assert f"{state} in a sentence" in panel.list.item(0).data(Qt.ItemDataRole.AccessibleTextRole)


def test_the_selected_row_has_room_for_what_it_says(qtbot: QtBot, panel: ModelsPanel) -> None:
    fit = Fit(TIGHT, "Tight", "Tight: room for about 12,000 of its 40,960 tokens, predicted.", 12_000)
    panel.set_models(MODELS)
    panel.set_assessment(lambda info: (fit, "8 of 48 slots compressed: 40 keep a window of their own."))
    first, second = panel.list.item(0), panel.list.item(1)
    panel.list.setCurrentRow(0)
    qtbot.waitUntil(
        lambda: panel.list.visualItemRect(first).height() > panel.list.visualItemRect(second).height()
    )
    panel.list.setCurrentRow(1)
    qtbot.waitUntil(
        lambda: panel.list.visualItemRect(first).height() < panel.list.visualItemRect(second).height()
    )


def test_a_download_is_a_row_that_pauses_and_goes_on(qtbot: QtBot, panel: ModelsPanel) -> None:
    panel.set_models(MODELS)
    running = Download("people/tiny", "Fetching 1.2 GB of 4.6 GB", 0.26, is_running=True)
    panel.set_downloads([running])
    panel.list.select("hub:people/tiny")
    assert panel.load_button.text() == "Pause" and not panel.unload_button.isVisible()
    assert panel.list.item(0).data(ROW).share == 0.26
    with qtbot.waitSignal(panel.pause_requested) as paused:
        panel.load_button.click()
    assert paused.args == ["people/tiny"]
    panel.set_downloads([replace(running, words="Stopped at 1.2 GB", is_running=False)])
    assert panel.load_button.text() == "Resume"
    with qtbot.waitSignal(panel.download_requested):
        qtbot.keyClick(panel.list, Qt.Key.Key_Return)
    with qtbot.waitSignal(panel.give_up_requested):
        panel.give_up_button.click()
    with qtbot.waitSignal(panel.give_up_requested):
        qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    panel.set_downloads([])
    assert rows(panel)[0] == STARTER.name and panel.load_button.text() == "Load"


def test_a_row_s_menu_shows_where_the_model_is(panel: ModelsPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "studio.ui.models_list.QDesktopServices.openUrl", lambda url: opened.append(url.toLocalFile())
    )
    panel.set_models([STARTER, replace(STARTER, path=Path("/m/x.gguf"), format="gguf", source="opened")])
    panel.list.select("/m/x.gguf")
    show, copy = panel.list.menu().actions()
    show.trigger()
    copy.trigger()
    assert opened == ["/m"] and QGuiApplication.clipboard().text() == "/m/x.gguf"
