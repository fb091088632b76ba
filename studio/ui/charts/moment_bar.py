"""Going back and forth in time: the moment all views show, and how much of it they show."""

import numpy as np
from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import QHBoxLayout, QSlider, QWidget

from studio.core.history import History
from studio.ui.charts.stretch import SlotStretch
from studio.ui.charts.timeline import Timeline
from studio.ui.controls import Switch
from studio.ui.parts import button, label, margins


class MomentBar(QWidget):
    """A slider over the rows of a history, a switch to follow the newest, and a way back to everything."""

    def __init__(self, timeline: Timeline, slots: SlotStretch) -> None:
        super().__init__()
        self._timeline, self._slots = timeline, slots
        self._tokens = np.zeros(0, np.uint32)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Moment shown")
        self.slider.setToolTip("Go back and forth in time: every view shows the cache as it was then")
        self.slider.valueChanged.connect(self._slid)
        self.words = label("", "small")
        self.live = Switch("Follow live")
        self.live.setToolTip("Every view shows the newest token. Off, everything stands still.")
        self.live.toggled.connect(self._toggled)
        self.whole = button("Show all", "link", "All tokens, all slots and the whole height again (0)")
        self.whole.clicked.connect(timeline.show_all)
        self.whole.clicked.connect(slots.show_all)
        # Where there is one moment only, as when a conversation is read again, the views stay as high.
        policy = self.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.setSizePolicy(policy)
        row = QHBoxLayout(self)
        margins(row, 0, 0, 0, 0, 10)
        row.addWidget(self.live)
        row.addWidget(self.slider, 1)
        row.addWidget(self.words)
        row.addWidget(self.whole)

    def show_history(self, history: History | None) -> None:
        """Put the slider over the rows there are."""
        self._tokens = np.zeros(0, np.uint32) if history is None else history.columns()["tokens"]
        self.setVisible(len(self._tokens) > 1)
        last = max(0, len(self._tokens) - 1)
        moment = self._timeline.moment
        row = last if moment is None else max(0, int(np.searchsorted(self._tokens, moment, "right")) - 1)
        with QSignalBlocker(self.slider), QSignalBlocker(self.live):
            self.slider.setRange(0, last)
            self.slider.setPageStep(max(1, last // 20))
            self.slider.setValue(row)
            self.live.setChecked(moment is None)
        told = f"token {int(self._tokens[row]):,} of {int(self._tokens[last]):,}" if last else ""
        if told != self.words.text():
            self.words.setText(told)
            self.slider.setAccessibleDescription(told)
        self.whole.setVisible(self._timeline.closer or self._slots.shown is not None)

    def _slid(self, row: int) -> None:
        if row < len(self._tokens):
            self._timeline.hold(int(self._tokens[row]))

    def _toggled(self, live: bool) -> None:
        if live:
            self._timeline.go_live()
        else:
            self._timeline.hold(self._timeline.newest)
