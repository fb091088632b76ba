import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QImage
from PySide6.QtWidgets import QApplication

from studio.core.history import History
from studio.ui.charts.fidelity import NOT_COMPARED
from studio.ui.charts.panel import WIDE, ChartsPanel
from studio.ui.theme import DARK, LIGHT, Scheme, apply_theme, kind_colour, palette_for
from tests.studio.synthetic import history, plan, reply, snapshot
from tests.studio.ui.charts.conftest import Show
from veloxquant_mlx.steps import TokenStep
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot, LayerStats


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
    assert panel.memory.empty and panel.layers.empty and panel.layers.selected is None
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


def test_empty_views_each_say_what_they_will_show(show: Show) -> None:
    panel = show(None)
    assert len({view.empty for view in panel.views}) == len(panel.views)


def test_the_legend_says_what_its_words_mean(show: Show) -> None:
    legend = show(history(foreign=frozenset({1})), plan(30, frozenset({1})), (420, 320)).legend
    told = [
        legend.meaning_at(x, y) for y in range(0, legend.height(), 4) for x in range(0, legend.width(), 4)
    ]
    assert {words.partition(": ")[0] for words in told if words} == set(legend.entries().values())
    assert told[0].startswith("codes: ") and "" in told


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


def test_a_model_that_caches_no_tokens_says_what_its_state_takes(show: Show) -> None:
    kept = History()
    states = tuple(LayerStats(n, False, ByteCount(foreign=600_000), 600_000, 600_000, 0) for n in range(4))
    kept.append(TokenStep("a", 1, 1, CacheSnapshot(0, states, 0, 0)))
    panel = show(kept, plan(4, frozenset(range(4))))
    for view in (panel.memory, panel.token_map):
        assert view.empty.startswith("This model caches no tokens: its state takes 2.40 MB, measured")
    assert panel.layers.empty == "" and panel.layers.drawn["foreign"].tolist() == [600_000] * 4
    assert not panel.grab().isNull()


def test_every_view_is_drawn_at_any_size_and_text(show: Show, qapp: QApplication) -> None:
    before = qapp.font()
    kept = history(slots=128, ranked=True)
    try:
        for pixels, size in ((13, (400, 200)), (26, (720, 420)), (13, (2560, 500))):
            font = QFont(before)
            font.setPixelSize(pixels)
            qapp.setFont(font)
            panel = show(kept, plan(128), size)
            panel.select(127)
            for index in range(5):
                panel.tabs.setCurrentIndex(index)
                QApplication.processEvents()
                assert panel.width() == size[0] or size[0] < panel.minimumSizeHint().width()
                assert not panel.grab().isNull()
    finally:
        qapp.setFont(before)


def test_views_tell_a_screen_reader_their_names(show: Show) -> None:
    panel = show(history(slots=3), plan(3))
    assert [view.accessibleName() for view in panel.views] == [
        "Memory over tokens", "Layers", "Token map", "Rank", "Fidelity",
    ]  # fmt: skip
    for view in panel.views:
        assert (
            view.more.accessibleName() == f"Save {view.title}"
            and view.focusPolicy() == Qt.FocusPolicy.StrongFocus
        )
    assert panel.moments.slider.accessibleName() == "Moment shown"
    assert panel.moments.slider.accessibleDescription() == "token 500 of 500"
    assert panel.fidelity.empty == NOT_COMPARED


def test_large_text_shows_one_view_at_a_time(show: Show, qapp: QApplication) -> None:
    apply_theme(qapp, Scheme.Dark, 2.0)
    panel = show(history(), plan(30), (WIDE, 400))
    assert [view.isVisible() for view in panel.views[:3]] == [True, False, False]
    panel.resize(2 * WIDE, 400)
    assert all(view.isVisible() for view in panel.views[:3])


def test_the_legend_stays_in_the_middle_when_marks_join_it(show: Show) -> None:
    kept = History()
    panel = show(kept, plan(4), (1280, 290))
    colour = kind_colour("codes", Scheme.Dark)
    for step in (None, *reply(0, 300, 60, slots=4)):
        if step is not None:
            kept.append(step)
            panel.refresh()
        image = panel.legend.grab().toImage()
        rows = [y for y in range(image.height()) if image.pixelColor(5, y).name() == colour.name()]
        assert abs((rows[0] + rows[-1]) / 2 - (image.height() - 1) / 2) <= 1
    assert "mark" in panel.legend.entries()
