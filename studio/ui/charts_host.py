"""The place of the charts: empty until the first paint is done, because drawing them imports a lot."""

import time
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.pace import Pace
from studio.ui.theme import scheme_now
from studio.ui.token_fidelity import Fidelity
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import Plan, Step

SHORTEST_MS, LONGEST_MS = 250, 12_000
"""Bounds of the rest after a drawing while steps come: growth by a token or two is not seen any sooner."""


class ChartsHost(QFrame):
    """Keeps the History and hands it to the charts panel once that is there."""

    saved = Signal(str)
    """Path of a view that was saved."""
    save_failed = Signal(str)
    """Why one was not, in one sentence."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        # Larger text takes room from the charts, but never so much that the conversation has none.
        self.setMinimumHeight(round(160 * min(parts.text_scale(), 1.4)))
        self.panel: Any = None
        self._history: Any = None
        self._aside: Any = None
        self._steps: list[Step] = []
        """What came since the last look: together they cost far less than one by one."""
        self._plan: Plan | None = None
        self._waiting = ""
        self._method: type[KVCacheConfig] | None = None
        self._fidelity = Fidelity()
        self._behind = False
        """Whether something came since the last drawing."""
        self.pace = Pace(SHORTEST_MS, LONGEST_MS)
        self._drawn = 0.0
        """When the last drawing was."""
        self._rest: float | None = 0.0
        """Seconds of rest after it; None until it is painted, which costs most."""
        self._column = QVBoxLayout(self)
        parts.margins(self._column, 0, 0, 0, 0, 0)

    def sizeHint(self) -> QSize:
        """The height the charts were drawn for."""
        return QSize(800, 284)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Once the window is on the screen, the rest may come."""
        super().paintEvent(event)
        if self.panel is None:
            QTimer.singleShot(0, self.load)

    def load(self) -> None:
        """Import and show the charts; once."""
        if self.panel is not None:
            return
        from studio.core.history import History
        from studio.ui.charts.panel import ChartsPanel

        self._history = History()
        self.panel = ChartsPanel()
        self._column.addWidget(self.panel)
        self.panel.set_history(self._history)
        self.follow_palette()
        for told in ("saved", "save_failed"):
            getattr(self.panel, told).connect(getattr(self, told))
        self.panel.set_plan(self._plan)
        self.panel.set_method(self._method)
        self.panel.fidelity.show_fidelity(self._fidelity)
        if self._waiting:
            self.panel.set_waiting(self._waiting)

    @property
    def history(self) -> Any:
        """The History of all steps so far; None before there are charts."""
        if self._steps:
            self.load()
            self._read()
        return self._history

    def _read(self) -> None:
        """Take the figures of what came into the history."""
        for step in self._steps:
            self._history.append(step)
        self._steps.clear()

    def append(self, step: Step) -> None:
        """Keep a step's numbers."""
        self._steps.append(step)
        # Before the first token there is nothing to see, and a rest after it would hold up what there is.
        self._behind |= bool(step.snapshot.tokens or step.snapshot.resident_bytes)

    def take(self, said: Any = None, fidelity: Any = None) -> Any:
        """Everything a report shows, copied now: see ``studio.core.taken``."""
        from studio.core.taken import take

        return take(self.history, said, fidelity)

    def refresh(self) -> None:
        """Draw what is new, unless it rests: at every look, so that all is one picture."""
        if self._rest is None:
            self._rest = self.pace.rest() / 1000
        if self.panel is not None:
            self._read()
        if self._behind and time.monotonic() >= self._drawn + self._rest:
            self.settle()

    def settle(self) -> None:
        """Draw what came last at once: nothing more does for now."""
        if self._behind and self.history is not None:
            self._behind, self._rest, self._drawn = False, None, time.monotonic()
            self.pace.begin()
            self.panel.refresh()

    def clear(self) -> None:
        """A new conversation: no history."""
        self._aside = None
        self._steps.clear()
        self._behind, self._rest = False, 0.0
        if self.panel is not None:
            self._history.clear()
            self.panel.clear()

    def begin_again(self) -> None:
        """Another cache is filled with the same tokens: draw its history, and keep the present one aside."""
        self._rest = 0.0
        if self.panel is not None:
            self._aside, self._history = self.history, type(self._history)()
            self.panel.set_history(self._history)

    def end_again(self, *, whole: bool) -> None:
        """The other cache is full, or given up: then the history before it returns."""
        if self.panel is None or self._aside is None:
            return
        again = self.history
        if whole:
            again.mark_turns(self._aside.turn_marks)
        else:
            self._history = self._aside
        self._aside = None
        self.panel.set_history(self._history)

    def set_plan(self, plan: Plan | None) -> None:
        """What the method does to the slots; None without a model."""
        self._plan = plan
        if self.panel is not None:
            self.panel.set_plan(plan)

    def set_method(self, method: type[KVCacheConfig] | None) -> None:
        """The method the next reply goes through."""
        self._method = method
        if self.panel is not None:
            self.panel.set_method(method)

    def set_waiting(self, words: str) -> None:
        """What the charts say while nothing is compressed yet, without a full stop."""
        self._waiting = words
        if self.panel is not None:
            self.panel.set_waiting(words)

    def set_ghost(self, points: Sequence[tuple[float, float]] | None) -> None:
        """What other settings would take, (tokens, predicted bytes), over Memory; None drops it."""
        if self.panel is not None:
            self.panel.memory.set_ghost(points)

    def set_fidelity(self, shown: Fidelity) -> None:
        """What was compared with the uncompressed cache."""
        self._fidelity = shown
        if self.panel is not None:
            self.panel.fidelity.show_fidelity(shown)

    def follow_palette(self) -> None:
        """Paint in the scheme of the palette."""
        if self.panel is not None:
            self.panel.set_scheme(scheme_now())
