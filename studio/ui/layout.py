"""Where the panels are: models, conversation and cache side by side, the charts below them."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from studio.ui import parts

WIDTH, HEIGHT = 1280, 800
"""The size the layout was drawn for, pixels."""


def columns(left: QWidget, middle: QWidget, right: QWidget) -> QSplitter:
    """Side panels that keep their width while the middle takes what there is."""
    splitter = _splitter(Qt.Orientation.Horizontal, "columns")
    # Larger text widens the panels, but never beyond what a small screen has.
    scale = min(parts.text_scale(), 1.4)
    wide_left, wide_right = round(216 * scale), round(292 * scale)
    for panel, least in ((left, wide_left - 32), (middle, 280), (right, wide_right - 40)):
        panel.setMinimumWidth(least)
        splitter.addWidget(panel)
    for index, stretch in enumerate((0, 1, 0)):
        splitter.setStretchFactor(index, stretch)
    splitter.setSizes([wide_left, WIDTH - wide_left - wide_right, wide_right])
    return splitter


def stack(upper: QWidget, lower: QWidget) -> QSplitter:
    """Two panels in one column, the upper somewhat higher."""
    splitter = _splitter(Qt.Orientation.Vertical, "stack")
    splitter.addWidget(upper)
    splitter.addWidget(lower)
    splitter.setSizes([284, 208])
    return splitter


def rows(above: QWidget, below: QWidget) -> QSplitter:
    """The panels above the charts, both growing with the window."""
    splitter = _splitter(Qt.Orientation.Vertical, "rows")
    splitter.addWidget(above)
    splitter.addWidget(below)
    splitter.setStretchFactor(0, 3)
    splitter.setStretchFactor(1, 2)
    splitter.setSizes([462, 276])
    return splitter


def page(top: QWidget, middle: QWidget, bottom: QWidget) -> QWidget:
    """A bar, what is between, and a bar."""
    holder = QWidget()
    column = QVBoxLayout(holder)
    parts.margins(column, 0, 0, 0, 0, 0)
    column.addWidget(top)
    column.addWidget(middle, 1)
    column.addWidget(bottom)
    return holder


def _splitter(orientation: Qt.Orientation, name: str) -> QSplitter:
    """Panels of a size that is kept under a name."""
    splitter = QSplitter(orientation)
    splitter.setObjectName(name)
    splitter.setHandleWidth(1)
    splitter.setChildrenCollapsible(False)
    return splitter
