"""The panel below the conversation: every chart, side by side or as tabs, under one legend."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QTabBar, QVBoxLayout, QWidget

from studio.core.history import History
from studio.ui.charts.layers import LayersChart
from studio.ui.charts.legend import Legend
from studio.ui.charts.memory import WAITING, MemoryChart
from studio.ui.parts import label, margins
from studio.ui.theme import Scheme, scheme_now
from veloxquant_mlx.steps import Plan

WIDE = 1100
"""Pixels from which the charts stand side by side."""
_HEADLINE = "Cache memory"
"""What stands beside the legend before there is a figure."""


class ChartsPanel(QWidget):
    """Memory over tokens and Layers. Draws only in ``refresh``, and there only what is seen and changed."""

    slot_selected = Signal(int)
    """Position in the model's cache list that the person picked in a chart."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.memory, self.layers = MemoryChart(), LayersChart()
        self.legend = Legend()
        self._charts: tuple[MemoryChart | LayersChart, ...] = (self.memory, self.layers)
        self._history: History | None = None
        self._plan: Plan | None = None
        self._waiting = WAITING
        self._seen: dict[QWidget, object] = {}
        self.headline = label("", "strong")
        self.tabs = QTabBar()
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setAccessibleName("Charts")
        for title, tip in (
            ("Memory", "Bytes of the whole cache over the tokens of the conversation"),
            ("Layers", "Bytes of every cache slot now"),
        ):
            self.tabs.setTabToolTip(self.tabs.addTab(title), tip)
        self._head = QGridLayout()
        margins(self._head, 0, 0, 0, 0, 8)
        self._head.setColumnStretch(1, 1)
        self._head.addWidget(self.tabs, 0, 0)
        self._head.addWidget(self.headline, 0, 1)
        self._head.addWidget(self.legend, 0, 2)
        row = QHBoxLayout()
        margins(row, 0, 0, 0, 0, 24)
        row.addWidget(self.memory, 11)
        row.addWidget(self.layers, 9)
        column = QVBoxLayout(self)
        margins(column, 14, 8, 14, 8, 6)
        column.addLayout(self._head)
        column.addLayout(row, 1)
        self.tabs.currentChanged.connect(self._arrange)
        self.layers.slot_selected.connect(self.slot_selected)
        self._dress(scheme_now())
        self._arrange()

    def set_plan(self, plan: Plan | None) -> None:
        """What the method does to the loaded model's slots; None when no model is loaded."""
        self._plan = plan
        self.layers.set_plan(plan)
        self._name_entries()

    def set_history(self, history: History | None) -> None:
        """The history to draw from; it is read in ``refresh``, never changed."""
        self._history = history
        self._seen.clear()
        self.refresh()

    def set_waiting(self, words: str) -> None:
        """What is said while nothing is compressed yet, one sentence without a full stop."""
        if words != self._waiting:
            self._waiting = words
            self._seen.clear()
            self.refresh()

    def set_scheme(self, scheme: Scheme | str) -> None:
        """``dark``, ``light`` or a Scheme. The next change of the application's palette decides again."""
        self._dress(Scheme.Light if scheme in ("light", Scheme.Light) else Scheme.Dark)

    def refresh(self) -> None:
        """Draw the charts that are visible and older than the history."""
        history, state = self._history, self._state()
        for chart in self._charts:
            if not chart.isVisible() or (chart in self._seen and self._seen[chart] == state):
                continue
            if isinstance(chart, MemoryChart):
                chart.draw(history, self._waiting)
                self.headline.setText(chart.words or _HEADLINE)
            else:
                chart.draw(None if history is None else history.snapshot, self._waiting)
            self._seen[chart] = state
            self._name_entries()

    def clear(self) -> None:
        """Empty the charts and drop the selection, until the history changes; plan and history stay set."""
        self.layers.select(None)
        for chart in self._charts:
            chart.draw(None)
            self._seen[chart] = self._state()
        self.headline.setText(_HEADLINE)
        self._name_entries()

    def _state(self) -> int | None:
        """What a chart drawn now would show: the history's version."""
        return None if self._history is None else self._history.version

    def _name_entries(self) -> None:
        history, plan = self._history, self._plan
        snapshot = None if history is None else history.snapshot
        planned = plan is not None and plan.replaced < len(plan.slots)
        held = snapshot is not None and any(not layer.replaced for layer in snapshot.layers)
        if self.legend.show_also(
            foreign=planned or held, marks=history is not None and bool(history.turn_marks)
        ):
            self._place_legend()

    def _dress(self, scheme: Scheme) -> None:
        for part in (*self._charts, self.legend):
            part.set_scheme(scheme)

    def _arrange(self) -> None:
        """Side by side where there is room, else the chart of the chosen tab."""
        wide = self.width() >= WIDE
        self.tabs.setVisible(not wide)
        self.headline.setVisible(wide)
        self.memory.set_head(title=wide, words=not wide)
        self.layers.set_head(title=wide, words=True)
        for index, chart in enumerate(self._charts):
            chart.setVisible(wide or index == self.tabs.currentIndex())
        self._place_legend()
        self.refresh()

    def _place_legend(self) -> None:
        """Beside the tabs or the headline where it fits on one line, else below them."""
        left = self.headline if self.width() >= WIDE else self.tabs
        beside = left.sizeHint().width() + self.legend.line_width() + 60 <= self.width()
        self._head.removeWidget(self.legend)
        if beside:
            self._head.addWidget(self.legend, 0, 2)
        else:
            self._head.addWidget(self.legend, 1, 0, 1, 3)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "tabs"):
            self._dress(scheme_now())
        elif event.type() == QEvent.Type.FontChange and hasattr(self, "tabs"):
            self._dress(scheme_now())
            self._arrange()
