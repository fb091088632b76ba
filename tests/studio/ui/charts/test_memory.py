from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QFontMetricsF, QImage
from PySide6.QtWidgets import QApplication, QLabel, QToolTip

from studio.core.history import History
from studio.ui.charts.areas import cut, kept_apart
from studio.ui.charts.ink import STACK, small
from studio.ui.charts.memory import PROMISE
from studio.ui.charts.plot import RIGHT, QuietPlot
from studio.ui.charts.scene import WAITING
from tests.studio.synthetic import history, plan, reply, snapshot
from tests.studio.ui.charts.conftest import Show
from tests.studio.ui.charts.pixels import at, heights, picture
from veloxquant_mlx.steps import TokenStep
from veloxquant_mlx.telemetry import BYTE_KINDS


def test_what_is_drawn_is_what_was_fed_kind_by_kind(show: Show) -> None:
    kept = history(((300, 200), (40, 60)), slots=6, foreign=frozenset({0, 3}))
    drawn = show(kept, plan(6, frozenset({0, 3}))).memory.drawn
    columns = kept.columns()
    assert drawn is not None
    assert drawn.tokens.tolist() == columns["tokens"].tolist()
    for kind in BYTE_KINDS:
        assert drawn.kinds[kind].tolist() == columns[kind].tolist()
    assert drawn.resident.tolist() == columns["resident"].tolist()
    assert drawn.reference.tolist() == columns["reference"].tolist()


def test_what_is_painted_is_what_was_fed_within_a_pixel(show: Show) -> None:
    kept = history(((900, 300),), slots=6)
    panel = show(kept, plan(6), (1000, 460))
    plot, columns = panel.memory.plot, kept.columns()
    QApplication.processEvents()
    image, base = picture(plot), at(plot, 0, 0).y()
    for tokens in (1000, 1060, 1190):
        row = columns["tokens"].tolist().index(tokens)
        seen = heights(image, at(plot, tokens, 0).x())
        for kind in BYTE_KINDS:
            pixels = base - at(plot, 0, int(columns[kind][row]) / 1e6).y()
            # Edges are soft, and the measured line lies across the topmost kind.
            assert abs(seen.get(kind, 0) - pixels) <= 2, (tokens, kind)


def test_closer_what_is_seen_is_interpolated_at_the_edges_only(show: Show) -> None:
    kept = history(((300, 200),), slots=2)
    panel = show(kept, plan(2))
    panel.timeline.zoom(0.25, 430.5, 600)
    drawn, columns = panel.memory.drawn, kept.columns()
    first, last = panel.memory.shown
    assert drawn is not None and drawn.tokens[0] == first and drawn.tokens[-1] == last
    rows = np.searchsorted(columns["tokens"], drawn.tokens[1:-1])
    assert drawn.tokens[1:-1].tolist() == columns["tokens"][rows].tolist()
    assert drawn.kinds["codes"][1:-1].tolist() == columns["codes"][rows].tolist()
    assert len(drawn.tokens) == int(last) - int(np.ceil(first)) + 3


def test_a_stretch_without_a_row_in_it_is_drawn_from_its_neighbours(show: Show) -> None:
    panel = show(history(((512, 20),), slots=2), plan(2))
    panel.timeline.zoom(0.03, 256, 600)
    drawn = panel.memory.drawn
    assert drawn is not None and drawn.tokens.tolist() == list(panel.memory.shown)
    share = drawn.tokens / 512
    whole = int(panel._history.columns()["codes"][1])  # type: ignore[union-attr]
    assert np.allclose(drawn.kinds["codes"], share * whole)


def test_the_frontier_stands_where_the_gauge_says(show: Show) -> None:
    panel = show(history(((300, 200),), slots=2), plan(2))
    assert panel.memory.tip is not None and panel.memory.tip.frontier == 384
    plot = panel.memory.plot
    image, x = picture(plot), at(plot, 384, 0).x()
    text, base = plot.ink.text.name(), at(plot, 0, 0).y()
    assert any(image.pixelColor(near, base - 4).name() == text for near in (x - 1, x, x + 1))


def test_the_stack_adds_up_to_the_counted_total(show: Show) -> None:
    kept = history(((900, 300),), slots=4, foreign=frozenset({1}))
    chart = show(kept).memory
    tops = list(chart.drawn_tops.values())
    assert list(chart.drawn_tops) == [kind for kind in STACK if kept.columns()[kind].any()]
    assert all(np.all(upper >= lower) for lower, upper in pairwise(tops))
    assert kept.snapshot is not None
    assert tops[-1][-1] == kept.snapshot.counted.total


def test_a_kind_without_bytes_has_no_area(show: Show) -> None:
    assert "foreign" not in show(history()).memory.drawn_tops


def test_a_long_history_is_thinned_but_keeps_its_newest_row_and_its_peaks(show: Show) -> None:
    kept = history(((10, 9000),), slots=1)
    drawn = show(kept).memory.drawn
    columns = kept.columns()
    total = sum(columns[kind] for kind in BYTE_KINDS)
    assert drawn is not None and len(drawn.tokens) < 2500
    assert drawn.tokens[-1] == 9010
    assert sum(drawn.kinds.values()).max() == total.max()


def test_an_empty_history_is_a_sentence(show: Show) -> None:
    for kept in (None, History()):
        chart = show(kept).memory
        assert chart.empty == PROMISE and chart.drawn is None


def test_a_prefill_of_no_tokens_yet_is_still_nothing(show: Show) -> None:
    kept = History()
    kept.append(next(iter(reply(0, 300, 1))))
    assert show(kept).memory.empty == PROMISE


def test_before_the_first_flush_the_words_say_so_instead_of_a_ratio(show: Show) -> None:
    panel = show(history(((60, 20),)))
    assert panel.memory.words == WAITING
    panel.set_waiting("The first 128 tokens stay exact")
    assert panel.memory.words == "The first 128 tokens stay exact"


def test_after_a_flush_the_ratio_is_named_counted(show: Show) -> None:
    kept = history()
    assert kept.snapshot is not None and kept.snapshot.ratio is not None
    assert show(kept).memory.words == f"{kept.snapshot.ratio:,.1f}× smaller than 16 bits, counted"


def test_the_ends_of_the_lines_are_labelled(show: Show) -> None:
    tip = show(history(((3000, 104),))).memory.tip
    assert tip is not None
    reference, resident = ("".join(pair) for pair in tip.words)
    assert reference == "16-bit, 71.5 MB counted"
    assert resident.endswith(" MB resident, measured")


def test_a_history_that_restarts_is_drawn_anew(show: Show) -> None:
    kept = history(((300, 200),), bits=(2, 2))
    panel = show(kept)
    for step in reply(0, 400, 3, bits=(4, 4)):
        kept.append(step)
    panel.refresh()
    drawn = panel.memory.drawn
    assert drawn is not None
    assert drawn.tokens.tolist() == [0, 400, 401, 402, 403]
    assert int(drawn.kinds["codes"][-1]) == snapshot(403, bits=(4, 4)).counted.codes


def test_a_cleared_history_empties_the_chart(show: Show) -> None:
    kept = history()
    panel = show(kept)
    kept.clear()
    panel.refresh()
    assert panel.memory.empty == PROMISE and panel.memory.drawn is None


def test_one_row_is_drawn(show: Show) -> None:
    kept = History()
    kept.append(TokenStep("a", 1, 1, snapshot(1, 1)))
    panel = show(kept)
    assert panel.memory.drawn is not None and not panel.grab().isNull()


def test_axes_name_round_tokens_with_separators(show: Show) -> None:
    plot = show(history(((3000, 104),))).memory.findChild(object, "plot")
    assert plot.tick_words()[0][:4] == ["0", "1,024", "2,048", "3,072"]


def test_the_pointer_reads_the_nearest_row(show: Show) -> None:
    kept = history(((300, 200),))
    panel = show(kept)
    plot = panel.memory.findChild(object, "plot")
    plot.hovered.emit(QPointF(450, 1))
    text = QToolTip.text()
    assert "450 tokens" in text and "frontier at 384 tokens" in text and "reply 1 began at 300 tokens" in text
    plot.hovered.emit(None)


def test_a_ghost_is_drawn_where_its_figures_are(show: Show) -> None:
    chart = show(history(((300, 200),), slots=4)).memory
    plot = chart.findChild(QuietPlot)
    assert plot is not None
    accent, before = plot.ink.tokens.accent.lower(), chart.grab().toImage()
    high = plot.getViewBox().viewRange()[1][1] * 1e6
    chart.set_ghost([(0, 0.9 * high), (500, 0.9 * high)])
    with_ghost = chart.grab().toImage()
    at = plot.mapTo(
        chart, plot.mapFromScene(plot.getViewBox().mapViewToScene(QPointF(100, 0.9 * high / 1e6)))
    )

    def accents(image: QImage) -> set[int]:
        return {
            y
            for y in range(image.height())
            for x in range(at.x() - 8, at.x() + 8)
            if image.pixelColor(x, y).name() == accent
        }

    drawn = accents(with_ghost) - accents(before)
    assert drawn and max(abs(y - at.y()) for y in drawn) <= 2
    chart.set_ghost(None)
    assert chart.grab().toImage() == before


def test_a_line_is_cut_where_it_leaves_the_frame() -> None:
    x, y = cut(np.array([0.0, 10, 20, 30]), np.array([50.0, 10, -10, 30]), top=0.0)
    assert x.tolist() == [0, 10, 15, 20, 22.5, 30]
    assert y[:3].tolist() == [50, 10, 0] and np.isnan(y[3]) and y[4:].tolist() == [0, 30]
    within = np.array([3.0, 4]), np.array([1.0, 0])
    assert cut(*within, top=0.0) == within


def test_a_ghost_above_the_axis_leaves_no_line_along_its_edge(show: Show) -> None:
    panel = show(history(((300, 5),)), plan(30))
    plot = panel.memory.plot
    high = plot.getViewBox().viewRange()[1][1]
    row = [at(plot, tokens, high) + QPoint(0, 1) for tokens in range(40, 90)]
    before = picture(plot)
    panel.memory.set_ghost([(0, 0), (10, 2e6 * high), (120, 2e6 * high)])
    QApplication.processEvents()
    after = picture(plot)
    assert [after.pixel(spot) for spot in row] == [before.pixel(spot) for spot in row] and after != before


def test_nothing_of_the_plotting_librarys_own_controls_is_left(show: Show) -> None:
    plot = show(history()).memory.findChild(object, "plot")
    item = plot.getPlotItem()
    assert item.buttonsHidden and not item.menuEnabled() and plot.getViewBox().menu is None
    assert plot.contextMenuPolicy() == Qt.ContextMenuPolicy.NoContextMenu


def test_no_number_is_cut_at_the_edge(show: Show) -> None:
    for tokens in (40, 95, 260, 1000, 5000):
        chart = show(history(((tokens - 3, 3),)), size=(700, 290)).memory
        plot = chart.findChild(QuietPlot)
        assert plot is not None
        metrics = QFontMetricsF(small(plot.font()))
        (_, end), _ = plot.getViewBox().viewRange()
        for words in plot.tick_words()[0]:
            at = plot.inside()[0] * int(words.replace(",", "")) / end
            assert at + metrics.horizontalAdvance(words) / 2 <= plot.inside()[0] + RIGHT


def test_the_sentence_of_an_empty_chart_is_in_the_middle(show: Show) -> None:
    chart = show(None).memory
    sentence = next(label for label in chart.findChildren(QLabel) if label.text() == PROMISE)
    middle = sentence.geometry().center().y()
    assert abs(middle - sentence.parentWidget().rect().center().y()) <= 1


@pytest.mark.parametrize(
    ("places", "kept"),
    [
        ([10.0, 50.0], [10.0, 50.0]),
        ([20.0, 22.0], [16.0, 26.0]),
        ([22.0, 20.0], [26.0, 16.0]),
        ([0.0, 0.0, 0.0], [5.0, 15.0, 25.0]),
        ([99.0, 98.0, 97.0], [95.0, 85.0, 75.0]),
    ],
)
def test_figures_are_kept_apart_in_their_order(places: list[float], kept: list[float]) -> None:
    assert kept_apart(places, 10, 5, 95) == pytest.approx(kept, abs=0.5)


def test_a_ghost_has_its_figure_at_its_end(show: Show) -> None:
    chart = show(history(((300, 200),), slots=4)).memory
    assert chart.tip is not None
    before = chart.grab().toImage()
    chart.set_ghost([(10, 1e5), (chart.tip.tokens, 5e5)])
    labelled = chart.grab().toImage()
    chart.set_ghost([(10, 1e5), (chart.tip.tokens - 1, 5e5)])
    unlabelled = chart.grab().toImage()
    right = [x for x in range(before.width()) if _column(labelled, x) != _column(unlabelled, x)]
    assert len(right) > 40, "the words stand beside the end"


def _column(image: QImage, x: int) -> list[int]:
    return [image.pixel(x, y) for y in range(image.height())]
