"""Nothing is collected inside, and whether anything is afterwards is left as it was."""

import gc

import pytest

from studio.ui.charts.plot import PixelItem, QuietPlot
from studio.ui.garbage import collecting_nothing


@pytest.mark.parametrize("collecting", [True, False])
def test_collecting_is_put_off_and_goes_on_as_before(collecting: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        with pytest.raises(ValueError, match="on the way"), collecting_nothing():
            assert not gc.isenabled()
            raise ValueError("on the way")
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()


def test_a_plot_takes_an_item_in_while_nothing_is_collected(qtbot) -> None:  # type: ignore[no-untyped-def]
    seen: list[bool] = []

    class Watching(PixelItem):
        def itemChange(self, change, value):  # type: ignore[no-untyped-def]
            seen.append(gc.isenabled())
            return super().itemChange(change, value)

    assert gc.isenabled()
    plot = QuietPlot()
    qtbot.addWidget(plot)
    item = Watching(plot)
    seen.clear()
    plot.put(item)
    assert seen and not any(seen)
    assert item in plot.getPlotItem().items and gc.isenabled()
