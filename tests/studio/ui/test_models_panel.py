"""The list of models and the commands it gives."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from studio.ui.model_row import ROW, row_text
from studio.ui.models_panel import GET_STARTER, ModelsPanel
from tests.studio.ui.fake_engine import MODELS, STARTER


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
    assert row_text(STARTER, loaded=False).detail == "4.5-bit, 98 MB, llama, 30 KV slots"
    assert row_text(STARTER, loaded=True).detail.startswith("Loaded: ")
    assert "8 of 48 slots hold KV" in row_text(MODELS[2], loaded=False).detail
    assert row_text(MODELS[3], loaded=False).detail == MODELS[3].problem
    unknown = replace(STARTER, weight_bits=None, kv_slots=None, slots=None)
    assert "0" not in row_text(unknown, loaded=False).detail.replace("98 MB", "")
    assert "no KV slots" in row_text(replace(STARTER, kv_slots=0), loaded=False).detail


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
    assert panel.is_busy() and panel._bar.value() == 420
    assert not panel.load_button.isEnabled()
    with qtbot.waitSignal(panel.cancel_requested):
        panel._cancel.click()
    panel.set_progress(None, "Checking")
    assert panel._bar.maximum() == 0
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
    panel.set_replying(True)
    assert not panel.unload_button.isEnabled()


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
