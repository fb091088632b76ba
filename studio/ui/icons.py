"""Small buttons with a drawn sign, sharp at any size and in both schemes."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QAction,
    QColor,
    QIcon,
    QKeySequence,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QTransform,
)
from PySide6.QtWidgets import QSizePolicy, QToolButton

from studio.ui import parts
from studio.ui.theme import tokens


def _arrow_back(flip: bool) -> QPainterPath:
    """A hook that points back (or forward), in a square of 16."""
    path = QPainterPath(QPointF(3, 6))
    path.lineTo(9.5, 6)
    path.cubicTo(QPointF(14, 6), QPointF(14, 12.5), QPointF(9.5, 12.5))
    path.lineTo(6.5, 12.5)
    path.moveTo(6, 3)
    path.lineTo(3, 6)
    path.lineTo(6, 9)
    if flip:
        return QTransform(-1, 0, 0, 1, 16, 0).map(path)
    return path


def _around() -> QPainterPath:
    """An arrow around a circle, back to where it began."""
    path = QPainterPath()
    path.arcMoveTo(QRectF(3, 3, 10, 10), 140)
    path.arcTo(QRectF(3, 3, 10, 10), 140, 300)
    path.moveTo(3.2, 1.8)
    path.lineTo(3.6, 5.4)
    path.lineTo(7.2, 4.9)
    return path


def _dots() -> QPainterPath:
    path = QPainterPath()
    for x in (3.5, 8.0, 12.5):
        path.addEllipse(QPointF(x, 8), 0.8, 0.8)
    return path


def _cross() -> QPainterPath:
    path = QPainterPath(QPointF(4.5, 4.5))
    path.lineTo(11.5, 11.5)
    path.moveTo(11.5, 4.5)
    path.lineTo(4.5, 11.5)
    return path


SIGNS = {
    "undo": _arrow_back(False),
    "redo": _arrow_back(True),
    "reset": _around(),
    "more": _dots(),
    "clear": _cross(),
}


class IconButton(QToolButton):
    """A quiet square button; its tooltip and its accessible name are its words."""

    def __init__(self, sign: str, name: str) -> None:
        super().__init__()
        self._path = SIGNS[sign]
        self.setProperty("role", "icon")
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def follow(self, action: QAction) -> None:
        """Do what an action does, under its name, while it can."""

        def take_over() -> None:
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            self.setEnabled(action.isEnabled())
            self.setAccessibleName(action.text())
            self.setToolTip(f"{action.text()} ({keys})" if keys else action.text())

        self.clicked.connect(action.trigger)
        action.changed.connect(take_over)
        take_over()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The frame of the stylesheet and the sign on it."""
        super().paintEvent(event)
        t = tokens()
        colour = t.faint if not self.isEnabled() else t.text if self.underMouse() else t.muted
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        scale = self.width() / 28
        painter.translate(self.width() / 2, self.height() / 2)
        painter.scale(scale, scale)
        painter.translate(-8, -8)
        _draw(painter, self._path, colour)
        painter.end()


def _draw(painter: QPainter, path: QPainterPath, colour: str) -> None:
    """A sign in its square of 16."""
    pen = QPen(QColor(colour), 1.5)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.drawPath(path)


def sign_icon(sign: str) -> QIcon:
    """A sign in the present scheme's quiet colour, for parts of Qt's own that take icons."""
    picture = QPixmap(64, 64)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(4, 4)
    _draw(painter, SIGNS[sign], tokens().muted)
    painter.end()
    return QIcon(picture)


def own_mark() -> QIcon:
    """The mark of what a person made: a bookmark in the accent colour."""
    side = round(14 * parts.text_scale())
    picture = QPixmap(side, side)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(side / 14, side / 14)
    path = QPainterPath(QPointF(3.5, 1.5))
    for x, y in ((10.5, 1.5), (10.5, 12.5), (7, 9.5), (3.5, 12.5)):
        path.lineTo(x, y)
    path.closeSubpath()
    painter.fillPath(path, QColor(tokens().accent))
    painter.end()
    return QIcon(picture)
