"""Views on disk: pictures that can be opened, figures that are those of the history."""

import csv
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFocusEvent, QFont, QFontMetricsF, QImage
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from studio.ui.charts.panel import ChartsPanel
from studio.ui.charts.save import PAD, SCALE, save_view
from studio.ui.theme import Scheme, kind_colour, tokens_for
from tests.studio.synthetic import basis, history, plan, snapshot
from tests.studio.ui.charts.conftest import Show
from veloxquant_mlx.errors import VeloxQuantError

FOREIGN = frozenset({2})
VIEWS = ("Memory over tokens", "Layers", "Token map", "Rank")


@pytest.fixture
def panel(show: Show) -> ChartsPanel:
    return show(history(((300, 100),), slots=4, foreign=FOREIGN, ranked=True), plan(4, FOREIGN))


def view_of(panel: ChartsPanel, title: str):  # type: ignore[no-untyped-def]
    index = VIEWS.index(title)
    panel.tabs.setCurrentIndex(index)
    QApplication.processEvents()
    return panel.views[index]


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("title", VIEWS)
def test_a_picture_shows_the_view_with_its_legend(panel: ChartsPanel, tmp_path: Path, title: str) -> None:
    view = view_of(panel, title)
    save_view(view, panel.legend, "png", path := tmp_path / "view.png")
    image = QImage(str(path))
    assert image.width() == SCALE * (view.width() + 2 * PAD) and image.height() > SCALE * view.height()
    colours = {
        image.pixelColor(x, y).name() for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)
    }
    assert kind_colour("codes", Scheme.Dark).name() in colours


def test_the_focus_is_not_in_the_picture(panel: ChartsPanel, tmp_path: Path) -> None:
    view = view_of(panel, "Layers")
    view.setFocus(Qt.FocusReason.TabFocusReason)
    assert view.ringed
    save_view(view, None, "png", path := tmp_path / "view.png")
    accent = tokens_for(view.scheme).accent.lower()
    image = QImage(str(path))
    column = round(SCALE * (PAD + 1))
    assert accent not in {image.pixelColor(column, y).name() for y in range(image.height())} and view.ringed
    view.focusInEvent(QFocusEvent(QEvent.Type.FocusIn, Qt.FocusReason.PopupFocusReason))
    assert view.ringed, "a menu gives back what was"


@pytest.mark.parametrize("title", VIEWS)
def test_a_drawing_is_made_of_shapes_and_words(panel: ChartsPanel, tmp_path: Path, title: str) -> None:
    save_view(view_of(panel, title), panel.legend, "svg", path := tmp_path / "view.svg")
    drawing = ET.parse(path)
    texts = {(node.text or "").strip(): node for node in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert title in texts
    font = QApplication.font()
    font.setWeight(QFont.Weight.DemiBold)
    wide = QFontMetricsF(font).horizontalAdvance(title)
    assert float(texts[title].attrib["textLength"]) == pytest.approx(wide, abs=0.5)
    assert all("textLength" in node.attrib for said, node in texts.items() if said), "whatever font it meets"
    assert len(list(drawing.iter())) > 40


def test_memory_s_table_has_every_row_and_unit(panel: ChartsPanel, tmp_path: Path) -> None:
    save_view(view_of(panel, VIEWS[0]), None, "csv", path := tmp_path / "memory.csv")
    names, *found = rows(path)
    assert names[:2] == ["tokens", "codes, bytes counted"] and "resident, bytes measured" in names
    last = snapshot(400, 4, foreign=FOREIGN)
    assert len(found) == len(panel._history)  # type: ignore[arg-type]
    assert int(found[-1][0]) == 400 and int(found[-1][1]) == last.counted.codes


def test_layers_table_is_that_of_the_moment_shown(panel: ChartsPanel, tmp_path: Path) -> None:
    panel.timeline.hold(350)
    save_view(view_of(panel, VIEWS[1]), None, "csv", path := tmp_path / "layers.csv")
    found = rows(path)[1:]
    for row, layer in zip(found, snapshot(350, 4, foreign=FOREIGN).layers, strict=True):
        assert row[:3] == [str(layer.slot), str(layer.replaced), "350"]
        assert [int(cell) for cell in row[3:9]] == list(layer.counted.as_dict().values())


def test_the_token_map_s_table_has_the_runs(panel: ChartsPanel, tmp_path: Path) -> None:
    save_view(view_of(panel, VIEWS[2]), None, "csv", path := tmp_path / "map.csv")
    assert rows(path)[1:4] == [
        ["0", "sinks", "0", "4"], ["0", "codes", "4", "384"], ["0", "exact rows", "384", "400"],
    ]  # fmt: skip
    assert ["2", "foreign slots", "0", "400"] in rows(path)


def test_rank_s_table_has_every_direction_and_leaves_the_unknown_empty(
    panel: ChartsPanel, tmp_path: Path
) -> None:
    save_view(view_of(panel, VIEWS[3]), None, "csv", path := tmp_path / "rank.csv")
    found = rows(path)[1:]
    assert len(found) == 3 * 3 * 64
    first, last = found[0], found[63]
    assert float(first[5]) == basis(0, 0, 64).spectrum[0] and first[6] == "8" and last[6] == ""


def test_what_can_t_be_written_is_one_sentence_and_leaves_nothing(panel: ChartsPanel, tmp_path: Path) -> None:
    view = view_of(panel, VIEWS[0])
    for kind, what in (("png", "picture"), ("svg", "drawing"), ("csv", "table")):
        with pytest.raises(VeloxQuantError, match=f"The {what} view.{kind} was not saved: its folder is no"):
            save_view(view, None, kind, tmp_path / "gone" / f"view.{kind}")
    assert list(tmp_path.iterdir()) == []


def test_the_menu_asks_saves_and_tells(
    panel: ChartsPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    answers = [str(tmp_path / "m.csv"), "", str(tmp_path / "gone" / "m.csv")]
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (answers.pop(0), ""))
    table = panel.memory.menu.actions()[2]
    with qtbot.waitSignal(panel.saved) as caught:
        table.trigger()
    assert caught.args == [str(tmp_path / "m.csv")] and rows(tmp_path / "m.csv")
    with qtbot.assertNotEmitted(panel.saved), qtbot.assertNotEmitted(panel.save_failed):
        table.trigger()
    with qtbot.waitSignal(panel.save_failed) as failed:
        table.trigger()
    assert "was not saved" in failed.args[0]


def test_an_empty_view_has_nothing_to_save(show: Show) -> None:
    panel = show(None)
    for view in panel.views:
        assert not view.more.isEnabled() and not view.menu.isEnabled()
