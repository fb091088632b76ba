import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from studio.ui.charts.panel import WIDE, ChartsPanel
from studio.ui.charts.scene import NOTHING
from studio.ui.theme import DARK, LIGHT, Scheme, kind_colour, palette_for
from tests.studio.synthetic import history, plan, snapshot
from tests.studio.ui.charts.conftest import Show
from veloxquant_mlx.steps import TokenStep


def colours_of(panel: ChartsPanel) -> set[str]:
    image = panel.memory.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return {
        image.pixelColor(x, y).name() for x in range(0, image.width(), 2) for y in range(0, image.height(), 2)
    }


def test_wide_windows_show_related_views_side_by_side_narrow_ones_the_chosen_tab(show: Show) -> None:
    panel = show(history(), plan(30), (WIDE, 290))

    def seen() -> list[str]:
        return [view.title for view in panel.views if view.isVisible()]

    assert seen() == ["Memory over tokens", "Layers", "Token map"]
    panel.resize(WIDE - 1, 290)
    assert seen() == ["Memory over tokens"]
    for index, view in enumerate(panel.views):
        panel.tabs.setCurrentIndex(index)
        assert seen() == [view.title]


def test_only_what_is_seen_and_changed_is_drawn(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = history(slots=3)
    panel = show(kept, plan(3), (800, 290))
    drawn: list[str] = []
    monkeypatch.setattr(panel.memory, "show_scene", lambda *_: drawn.append("memory"))
    monkeypatch.setattr(panel.layers, "show_scene", lambda *_: drawn.append("layers"))
    panel.refresh()
    assert drawn == []
    kept.append(TokenStep("a", 1, 9, snapshot(600, 3)))
    panel.refresh()
    panel.refresh()
    assert drawn == ["memory"]
    panel.tabs.setCurrentIndex(1)
    assert drawn == ["memory", "layers"]
    panel.hide()
    kept.append(TokenStep("a", 1, 10, snapshot(601, 3)))
    panel.refresh()
    assert drawn == ["memory", "layers"]
    panel.show()
    assert drawn == ["memory", "layers", "layers"]


def test_clear_empties_until_the_history_changes(show: Show) -> None:
    kept = history(slots=3)
    panel = show(kept, plan(3))
    panel.select(1)
    kept.clear()
    panel.clear()
    panel.refresh()
    assert panel.memory.empty == panel.layers.empty == NOTHING and panel.layers.selected is None
    kept.append(TokenStep("a", 1, 1, snapshot(600, 3)))
    panel.refresh()
    assert panel.memory.drawn is not None and panel.layers.empty == ""


def test_the_legend_names_every_kind_and_line_it_needs(show: Show) -> None:
    ours = show(history(((300, 50),)), plan(30)).legend.entries()
    assert list(ours) == ["codes", "parameters", "exact", "sinks", "side", "resident", "reference", "mark"]
    foreign = frozenset({1})
    theirs = show(history(foreign=foreign), plan(30, foreign)).legend.entries()
    assert theirs["foreign"] == "foreign slots"
    assert list(show(None).legend.entries())[-1] == "reference"


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_kinds_are_painted_in_their_colours(show: Show, scheme: str) -> None:
    panel = show(history(((300, 300),)), plan(30))
    panel.set_scheme(scheme)
    QApplication.processEvents()
    which = Scheme.Light if scheme == "light" else Scheme.Dark
    found = colours_of(panel)
    assert kind_colour("codes", which).name() in found
    assert kind_colour("exact", which).name() in found


def test_a_new_palette_changes_the_scheme(show: Show) -> None:
    panel, before = show(history(), plan(30)), QApplication.palette()
    try:
        for scheme, tokens in ((Scheme.Light, LIGHT), (Scheme.Dark, DARK)):
            QApplication.setPalette(palette_for(scheme))
            QApplication.processEvents()
            assert panel.layers.findChild(object, "plot").ink.tokens == tokens
    finally:
        QApplication.setPalette(before)


def test_the_legend_wraps_where_it_has_no_room(show: Show) -> None:
    panel = show(history(), plan(30), (420, 320))
    legend = panel.legend
    assert legend.heightForWidth(legend.line_width()) < legend.heightForWidth(390)
    assert legend.geometry().right() <= panel.width()
    assert legend.geometry().top() >= panel.tabs.geometry().bottom()


def test_the_charts_have_names_for_a_screen_reader(show: Show) -> None:
    panel = show(history(), plan(30))
    assert panel.memory.accessibleName() == "Memory over tokens"
    assert "smaller than 16 bits, counted" in panel.memory.accessibleDescription()
    assert panel.layers.accessibleName() == "Layers" and "codes" in panel.legend.accessibleName()
