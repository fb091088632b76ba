"""A charts panel that is on the screen."""

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from studio.core.history import History
from studio.ui.charts.panel import ChartsPanel
from veloxquant_mlx.steps import Plan

Show = Callable[..., ChartsPanel]


@pytest.fixture
def show(qtbot: QtBot) -> Show:
    """Show a history and a plan in a panel of a size."""
    # qtbot closes what it was given but doesn't keep it.
    panels: list[ChartsPanel] = []

    def shown(
        history: History | None, plan: Plan | None = None, size: tuple[int, int] = (1280, 290)
    ) -> ChartsPanel:
        panel = ChartsPanel()
        panels.append(panel)
        qtbot.addWidget(panel)
        panel.resize(*size)
        panel.set_plan(plan)
        panel.set_history(history)
        with qtbot.waitExposed(panel):
            panel.show()
        panel.refresh()
        return panel

    return shown
