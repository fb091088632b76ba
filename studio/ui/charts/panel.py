"""The panel below the conversation: five views as tabs, the related ones side by side where there is room."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QTabBar, QVBoxLayout, QWidget

from studio.core.history import History
from studio.ui.charts.fidelity import FidelityView
from studio.ui.charts.frame import ChartFrame
from studio.ui.charts.layers import LayersChart
from studio.ui.charts.legend import Legend
from studio.ui.charts.memory import MemoryChart
from studio.ui.charts.moment_bar import MomentBar
from studio.ui.charts.rank import RankView
from studio.ui.charts.save import ask_and_save
from studio.ui.charts.scene import WAITING, Scene, scene
from studio.ui.charts.stretch import SlotStretch
from studio.ui.charts.timeline import Timeline
from studio.ui.charts.token_map import TokenMap
from studio.ui.parts import margins, text_scale
from studio.ui.theme import Scheme, scheme_now
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import Plan

WIDE = 1100
"""Pixels at 100 % text from which the first tab shows Memory, Layers and Token map side by side."""
_TABS = (
    ("Memory", "Bytes of the whole cache over the tokens of the conversation"),
    ("Layers", "Bytes of every cache slot by kind, against 16 bits"),
    ("Token map", "What every slot holds every token as, and the flush frontier"),
    ("Rank", "How many directions of its keys every head keeps, with their energy"),
    ("Fidelity", "How far the cache moves the model's answers"),
)
_BY_HAND = "The wheel zooms, a drag moves what is seen"


class ChartsPanel(QWidget):
    """All views of one history. Draws only in ``refresh``, and there only what is seen and changed."""

    saved = Signal(str)
    """Path of a view that was saved."""
    save_failed = Signal(str)
    """Why one was not, in one sentence."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.timeline = Timeline(self)
        self.slots = SlotStretch(self)
        self.memory, self.layers = MemoryChart(self.timeline), LayersChart(self.slots)
        self.token_map, self.rank = TokenMap(self.timeline, self.slots), RankView(self.slots)
        self.fidelity = FidelityView(self.timeline)
        self.views: tuple[ChartFrame, ...] = (
            self.memory, self.layers, self.token_map, self.rank, self.fidelity,
        )  # fmt: skip
        self.legend = Legend()
        self.moments = MomentBar(self.timeline, self.slots)
        self.selected: int | None = None
        self._history: History | None = None
        self._plan: Plan | None = None
        self._method: type[KVCacheConfig] | None = None
        self._waiting = WAITING
        self._told = 0
        """Rises with everything that is said from outside."""
        self._seen: dict[QWidget, object] = {}
        self.tabs = QTabBar()
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setAccessibleName("Views")
        for title, tip in _TABS:
            self.tabs.setTabToolTip(self.tabs.addTab(title), f"{tip}. {_BY_HAND}.")
        self._compose()
        self._wire()
        self._dress(scheme_now())
        self._arrange()

    def _compose(self) -> None:
        self._head = QGridLayout()
        margins(self._head, 0, 0, 0, 0, 8)
        self._head.setColumnStretch(0, 1)
        self._head.addWidget(self.tabs, 0, 0)
        self._head.addWidget(self.legend, 0, 1)
        row = QHBoxLayout()
        margins(row, 0, 0, 0, 0, 24)
        for view, share in zip(self.views, (11, 8, 7, 1, 1), strict=True):
            row.addWidget(view, share)
        column = QVBoxLayout(self)
        margins(column, 14, 6, 14, 4, 4)
        column.addLayout(self._head)
        column.addLayout(row, 1)
        column.addWidget(self.moments)

    def _wire(self) -> None:
        self.tabs.currentChanged.connect(self._arrange)
        self.timeline.changed.connect(self.refresh)
        self.slots.changed.connect(self.refresh)
        for picker in (self.layers, self.token_map, self.rank, self.fidelity):
            picker.slot_selected.connect(self.select)
        for view in self.views:
            view.save_requested.connect(lambda kind, view=view: self._save(view, kind))

    def set_plan(self, plan: Plan | None) -> None:
        """What the method does to the loaded model's slots; another model's selection is dropped."""
        if self._plan is None or plan is None or len(plan.slots) != len(self._plan.slots):
            self.select(None)
        self._plan = plan
        self._tell_anew()

    def set_method(self, method: type[KVCacheConfig] | None) -> None:
        """The method whose cache is shown, for the names of its gauges and for what it does not have."""
        if method is not self._method:
            self._method = method
            self._tell_anew()

    def set_history(self, history: History | None) -> None:
        """The history to draw from; it is read in ``refresh``, never changed."""
        self._history = history
        self._tell_anew()

    def set_waiting(self, words: str) -> None:
        """What is said while nothing is compressed yet, one sentence without a full stop."""
        if words != self._waiting:
            self._waiting = words
            self._tell_anew()

    def set_scheme(self, scheme: Scheme | str) -> None:
        """``dark``, ``light`` or a Scheme. The next change of the application's palette decides again."""
        self._dress(Scheme.Light if scheme in ("light", Scheme.Light) else Scheme.Dark)

    def select(self, slot: int | None) -> None:
        """Select a slot in every view, or none."""
        self.selected = slot
        if slot is not None:
            self.slots.reveal(slot)
        for picker in (self.layers, self.token_map, self.rank, self.fidelity):
            picker.select(slot)

    def refresh(self) -> None:
        """Draw the views that are visible and older than the history."""
        history, timeline = self._history, self.timeline
        newest = history.snapshot.tokens if history is not None and history.snapshot is not None else 0
        timeline.grow(newest)
        version = None if history is None else history.version
        if history is not None and history.snapshot is not None:
            self.slots.take(len(history.snapshot.layers))
        looks = (timeline.moment, timeline.shown, timeline.height, self.slots.shown)
        state = (version, *looks, self._told)
        stale = [view for view in self.views if view.isVisible() and self._seen.get(view) != state]
        if self._seen.get(self.moments) != state and self.isVisible():
            self.moments.show_history(history)
            self._seen[self.moments] = state
        if not stale:
            return
        now = scene(history, timeline.moment, self._plan, self._method, self._waiting)
        if self.selected is not None and now.layers and self.selected >= len(now.layers):
            self.select(None)
        for view in stale:
            view.show_scene(now)
            self._seen[view] = state
        self._name_entries()

    def clear(self) -> None:
        """Empty the views and drop the selection, until the history changes; plan and history stay set."""
        self.select(None)
        self.timeline.forget()
        self.slots.show_all()
        for view in self.views:
            view.show_scene(Scene(plan=self._plan, method=self._method, waiting=self._waiting))
        self._seen.clear()
        self.refresh()

    def _tell_anew(self) -> None:
        self._told += 1
        self.refresh()
        self._name_entries()

    def _save(self, view: ChartFrame, kind: str) -> None:
        legend = None if view in (self.rank, self.fidelity) else self.legend
        path, problem = ask_and_save(view, legend, kind)
        if problem:
            self.save_failed.emit(problem)
        elif path:
            self.saved.emit(path)

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
        self.legend.set_scheme(scheme)
        for view in self.views:
            view.set_scheme(scheme)

    def _arrange(self) -> None:
        """The chosen tab's view; with the first, its neighbours too where there is room."""
        chosen = self.tabs.currentIndex()
        several = self.width() >= round(WIDE * text_scale()) and chosen == 0
        shown = {view for index, view in enumerate(self.views) if index == chosen or (several and index < 3)}
        # What goes makes room first: the panel must not grow for a moment.
        for view in self.views:
            if view not in shown:
                view.hide()
        self.layers.set_alone(not several, self.width())
        for view in shown:
            view.show()
        self.legend.setVisible(chosen < 3)
        self._place_legend()
        self.refresh()

    def _place_legend(self) -> None:
        """Beside the tabs where it fits on one line, else below them."""
        # A tab bar does not count that the chosen tab's words are heavier.
        beside = self.tabs.sizeHint().width() + self.legend.line_width() + 60 <= self.width()
        self._head.removeWidget(self.legend)
        if beside:
            self._head.addWidget(self.legend, 0, 1)
        else:
            self._head.addWidget(self.legend, 1, 0, 1, 2)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "moments"):
            self._dress(scheme_now())
        elif event.type() == QEvent.Type.FontChange and hasattr(self, "moments"):
            self._dress(scheme_now())
            self._arrange()
