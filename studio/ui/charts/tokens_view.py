"""A view with the conversation's tokens along its bottom: wheel, drag and keys move all such views."""

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QHBoxLayout, QToolTip, QWidget

from studio.ui.charts.frame import ChartFrame
from studio.ui.charts.ink import small
from studio.ui.charts.plot import RIGHT, ZOOM, QuietPlot
from studio.ui.charts.scale import binary_ticks
from studio.ui.charts.timeline import Timeline
from studio.ui.parts import margins
from studio.ui.theme import Scheme


class TokensView(ChartFrame):
    """Subclasses draw in ``arrange``, which is called whenever the stretch of tokens or the size changed."""

    def __init__(self, title: str, unit: str, timeline: Timeline, beside: QWidget | None = None) -> None:
        """``beside`` stands at the right of the plot."""
        self.plot = QuietPlot()
        body: QWidget = self.plot
        if beside is not None:
            body = QWidget()
            row = QHBoxLayout(body)
            margins(row, 0, 0, 0, 0, 20)
            row.addWidget(self.plot, 3)
            row.addWidget(beside, 2)
        super().__init__(title, unit, body)
        self.timeline = timeline
        self.whole = 1.0
        """The last token on the axis when all are shown."""
        self.plot.movable = True
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.plot.setAccessibleName(title)
        self.plot.resized.connect(self.arrange)
        self.plot.hovered.connect(self.hover)
        self.plot.pressed.connect(self.press)
        self.plot.zoomed.connect(self._zoom)
        self.plot.dragged.connect(self.drag)

    @property
    def shown(self) -> tuple[float, float]:
        """First and last token on the axis."""
        return self.timeline.shown or (0.0, self.whole)

    def arrange(self) -> None:
        """Fit axes, ticks and what is drawn to the stretch of tokens and to the size."""
        raise NotImplementedError

    def hover(self, at: QPointF | None) -> None:
        """Tell the figures under the pointer."""
        QToolTip.hideText()

    def press(self, at: QPointF) -> None:
        """A click."""
        self.setFocus(Qt.FocusReason.MouseFocusReason)

    def drag(self, tokens: float, up: float) -> None:
        """Move what is seen; ``up`` is for views that can."""
        self.timeline.move(tokens, self.whole)

    def show_all(self) -> None:
        """Show all there is."""
        self.timeline.show_all()

    def zoom_up(self, factor: float, at: float = 0.0) -> None:
        """See ``factor`` times as much upwards around ``at``, where the view can."""

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        super().set_scheme(scheme)
        self.plot.scheme = scheme
        self.plot.dress()
        self.arrange()

    def on_key(self, key: Qt.Key) -> bool:
        """Zoom, move, and back to everything or to the newest token."""
        first, last = self.shown
        step = 0.1 * (last - first)
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self._zoom(1 / ZOOM, QPointF(self._middle(), 0), False)
        elif key == Qt.Key.Key_Minus:
            self._zoom(ZOOM, QPointF(self._middle(), 0), False)
        elif key == Qt.Key.Key_Left:
            self.timeline.move(-step, self.whole)
        elif key == Qt.Key.Key_Right:
            self.timeline.move(step, self.whole)
        elif key == Qt.Key.Key_Home:
            self.timeline.move(-first, self.whole)
        elif key == Qt.Key.Key_End:
            self.timeline.go_live()
        elif key == Qt.Key.Key_0:
            self.show_all()
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.zoom_up(1 / ZOOM if key == Qt.Key.Key_Up else ZOOM)
        else:
            return False
        return True

    def ticks(self) -> list[tuple[float, str]]:
        """Round token counts along the bottom, each with room for its words."""
        first, last = self.shown
        width = self.plot.inside()[0]
        metrics = QFontMetricsF(small(self.plot.font()))
        most = max(1, int(width / (metrics.horizontalAdvance(f"{last:,.0f}") * 2)))
        ticks = []
        for tick in binary_ticks(last, min(8, most), first):
            at, half = (tick - first) / (last - first) * width, metrics.horizontalAdvance(f"{tick:,}") / 2
            # A number that would be cut at the edge is left out.
            if at + half <= width + RIGHT:
                ticks.append((float(tick), f"{tick:,}"))
        return ticks

    def _middle(self) -> float:
        """What stays in its place when keys zoom: the moment shown where it is seen, else the middle."""
        first, last = self.shown
        moment = self.timeline.newest if self.timeline.moment is None else self.timeline.moment
        return float(moment) if first <= moment <= last else (first + last) / 2

    def _zoom(self, factor: float, at: QPointF, up: bool) -> None:
        if up:
            self.zoom_up(factor, at.y())
        else:
            self.timeline.zoom(factor, at.x(), self.whole)
