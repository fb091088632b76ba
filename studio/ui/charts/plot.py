"""A pyqtgraph plot without its default look, and an item that paints in pixels."""

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QMouseEvent, QPainter, QResizeEvent, QTransform, QWheelEvent
from PySide6.QtWidgets import QApplication, QSizePolicy, QWidget

from studio.ui.charts.ink import Ink, ink, small
from studio.ui.garbage import collecting_nothing
from studio.ui.theme import Scheme

GAP = 6.0
"""Pixels between an axis and its numbers."""
RIGHT = 8.0
"""Pixels at the right of the inside, into which the last number may reach."""


ZOOM = 1.25
"""How much more is seen after one notch of the wheel or one key."""


class PixelItem(pg.GraphicsObject):
    """One item that paints a whole chart in widget pixels, so that hairlines stay hairlines.

    Subclasses implement ``paint_pixels(painter, to_pixels, frame)``: ``to_pixels`` maps data to pixels,
    ``frame`` is the plot's inside in pixels.
    """

    def __init__(self, plot: "QuietPlot") -> None:
        super().__init__()
        self._plot = plot
        self.grid: list[float] = []
        """Values at which ``paint_grid`` draws a line."""
        self._bounds: QRectF | None = None
        """What the view shows; Qt asks for it many times a paint."""

    def boundingRect(self) -> QRectF:
        if self._bounds is None:
            self._bounds = QRectF(self._plot.getViewBox().viewRect())
        return self._bounds

    def viewTransformChanged(self) -> None:
        self.prepareGeometryChange()
        self._bounds = None

    def viewRangeChanged(self) -> None:
        self.viewTransformChanged()

    def update(self, *_: Any) -> None:
        """Paint anew with everything else that changed in the window: see QuietPlot."""
        self._plot.viewport().update()

    def paint_grid(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        """A hairline across the frame at every value of ``grid``."""
        painter.setPen(self._plot.ink.grid)
        for value in self.grid:
            y = round(to_pixels.map(QPointF(0, value)).y()) - 0.5
            painter.drawLine(QLineF(frame.left(), y, frame.right(), y))

    def paint(self, painter: QPainter, *_: Any) -> None:
        to_pixels = painter.worldTransform()
        frame = to_pixels.mapRect(self.boundingRect())
        painter.save()
        painter.resetTransform()
        self.paint_pixels(painter, to_pixels, frame)
        painter.restore()

    def paint_pixels(self, painter: QPainter, to_pixels: QTransform, frame: QRectF) -> None:
        """Paint in pixels."""
        raise NotImplementedError


class QuietPlot(pg.PlotWidget):
    """Two bare axes around one view that only the program moves.

    The view's data coordinates are set by ``show_range``; the axes hold exactly the ticks they are given.
    Wheel and drag are told, not acted on, and only where ``movable`` is set. A scene that looks for what of
    it changed paints at once and by itself; here what changes asks for the next picture of the whole window.
    """

    hovered = Signal(object)
    """QPointF in data coordinates, or None when the pointer left the plot's inside."""
    pressed = Signal(object)
    """QPointF in data coordinates of a click of the left button inside the plot."""
    zoomed = Signal(float, object, bool)
    """How much of the data shall be seen against now, around which QPointF, and whether upwards (Ctrl)."""
    dragged = Signal(float, float)
    """Data units along the bottom and up the left axis by which the view shall move."""
    resized = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        with collecting_nothing():
            super().__init__(parent=parent, background=None, enableMenu=False)
            # Buttons and units that are not there need no updates.
            self.getViewBox().sigStateChanged.disconnect(self.getPlotItem().viewStateChanged)
        self.setObjectName("plot")
        self.setViewportUpdateMode(pg.PlotWidget.ViewportUpdateMode.NoViewportUpdate)
        self.setFrameShape(pg.PlotWidget.Shape.NoFrame)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(120, 72)
        # Named, or the tooltips shown for this widget would inherit it.
        self.setStyleSheet("#plot { background: transparent; border: none; }")
        self.hideButtons()
        self.setMouseEnabled(False, False)
        self.setMouseTracking(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.getViewBox().setDefaultPadding(0)
        self.getViewBox().disableAutoRange()
        self.scheme = Scheme.Dark
        self.movable = False
        self.words_above = False
        """Whether a line of words stands above the inside."""
        self._grip: tuple[QPointF, bool] | None = None
        """Where the held button was last, in pixels, and whether it has begun to drag."""
        self._ticks: tuple[list[tuple[float, str]], list[tuple[float, str]]] | None = None
        self._range: tuple[tuple[float, float], tuple[float, float]] | None = None
        for axis in (self.left, self.bottom):
            axis.setPen(pg.mkPen(None))
            axis.setTickPen(pg.mkPen(None))
            axis.setZValue(1)
            axis.enableAutoSIPrefix(False)
            axis.setStyle(
                tickLength=0, tickAlpha=0, tickTextOffset=round(GAP), autoExpandTextSpace=False,
                hideOverlappingLabels=False,
            )  # fmt: skip
        self.dress()

    @property
    def left(self) -> Any:
        """The vertical axis."""
        return self.getPlotItem().getAxis("left")

    @property
    def bottom(self) -> Any:
        """The horizontal axis."""
        return self.getPlotItem().getAxis("bottom")

    @property
    def ink(self) -> Ink:
        """Colours for painting right now."""
        return ink(self.scheme, self.devicePixelRatioF())

    def dress(self) -> None:
        """Take on the widget's font and the scheme's colours."""
        self._ticks = None
        font = small(self.font())
        metrics = QFontMetricsF(font)
        for axis in (self.left, self.bottom):
            axis.setStyle(tickFont=font)
            axis.setTextPen(self.ink.muted)
        self.bottom.setHeight(metrics.height() + GAP)
        # Half of the topmost number reaches above the inside.
        above = metrics.height() + GAP if self.words_above else max(GAP, metrics.height() / 2)
        self.getPlotItem().setContentsMargins(0, above, RIGHT, 0)
        self.viewport().update()

    def put(self, item: PixelItem) -> None:
        """Show an item, whose size counts for nothing."""
        with collecting_nothing():
            self.addItem(item, ignoreBounds=True)

    def show_range(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Set what the view shows, without padding."""
        if (x, y) == self._range:
            return
        self._range = (x, y)
        self.getViewBox().setRange(xRange=x, yRange=y, padding=0)
        self.viewport().update()

    def set_ticks(self, x: list[tuple[float, str]], y: list[tuple[float, str]]) -> None:
        """Set the axes' ticks and fit the left axis to its widest number."""
        # An axis that is told anything lays itself out anew, which costs more than the data's painting.
        if (x, y) == self._ticks:
            return
        self._ticks = (x, y)
        self.bottom.setTicks([x])
        self.left.setTicks([y])
        metrics = QFontMetricsF(small(self.font()))
        wide = max((metrics.horizontalAdvance(words) for _, words in y), default=0.0)
        self.left.setWidth(max(24.0, wide + 2 * GAP))
        self.viewport().update()

    def tick_words(self) -> tuple[list[str], list[str]]:
        """The numbers along the bottom and the left axis."""
        x, y = self._ticks or ([], [])
        return [words for _, words in x], [words for _, words in y]

    def inside(self) -> tuple[float, float]:
        """Width and height of the view in pixels, at least 1."""
        rect = self.getViewBox().boundingRect()
        return max(1.0, rect.width()), max(1.0, rect.height())

    def _data_at(self, event: QMouseEvent | QWheelEvent) -> QPointF | None:
        at = self.mapToScene(event.position().toPoint())
        view = self.getViewBox()
        return view.mapSceneToView(at) if view.sceneBoundingRect().contains(at) else None

    # The base class's handling of the mouse moves the view by itself.
    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._grip is None or not event.buttons() & Qt.MouseButton.LeftButton:
            self.hovered.emit(self._data_at(event))
            return
        here, dragging = event.position(), self._grip[1]
        step = here - self._grip[0]
        if dragging or step.manhattanLength() >= QApplication.startDragDistance():
            self._grip = (here, True)
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.hovered.emit(None)
            to_data = self.getViewBox().mapSceneToView
            moved = to_data(QPointF(0, 0)) - to_data(step)
            self.dragged.emit(moved.x(), moved.y())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self._data_at(event)
        if event.button() == Qt.MouseButton.LeftButton and at is not None:
            if self.movable:
                self._grip = (event.position(), False)
            else:
                self.pressed.emit(at)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._grip is not None:
            at, dragged, self._grip = self._data_at(event), self._grip[1], None
            self.unsetCursor()
            if at is not None and not dragged:
                self.pressed.emit(at)
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.mousePressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        # The scene would answer with the tooltip of its items, which have none, and so end what is told of
        # the place where the pointer rests.
        return event.type() == QEvent.Type.ToolTip or super().viewportEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self.hovered.emit(None)

    def wheelEvent(self, event: QWheelEvent) -> None:
        at = self._data_at(event)
        if not self.movable or at is None:
            event.ignore()
            return
        event.accept()
        turn = event.angleDelta()
        if abs(turn.x()) > abs(turn.y()):
            (first, last), _ = self.getViewBox().viewRange()
            self.dragged.emit(-turn.x() / 120 * 0.1 * (last - first), 0.0)
        elif turn.y():
            up = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self.zoomed.emit(ZOOM ** (-turn.y() / 120), at, up)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()
