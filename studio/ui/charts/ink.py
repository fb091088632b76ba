"""Colours and textures of the charts in one scheme, made once and shared by all of them."""

from functools import lru_cache

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontInfo, QPainter, QPen, QPixmap, QTransform

from studio.ui.theme import Scheme, Tokens, kind_colour, tokens_for

STACK = ("foreign", "side", "sinks", "codes", "parameters", "exact")
"""Bottom to top: what stands still below, the exact rows that rise and fall on top."""

_TILE = 6


class Ink:
    """Brushes, pens and colours for painting in one scheme at one device pixel ratio."""

    def __init__(self, scheme: Scheme, ratio: float) -> None:
        self.tokens: Tokens = tokens_for(scheme)
        self.colours = {kind: kind_colour(kind, scheme) for kind in (*STACK, "reference")}
        paper = QColor(self.tokens.panel)
        self.brushes = {kind: _brush(kind, self.colours[kind], paper, ratio) for kind in STACK}
        self.text = QColor(self.tokens.text)
        self.muted = QColor(self.tokens.muted)
        self.grid = QPen(QColor(self.tokens.line), 1)
        faint = QColor(self.tokens.faint)
        faint.setAlpha(110)
        self.mark = QPen(faint, 1)
        self.halo = paper
        self.reference = QPen(self.colours["reference"], 1.25)
        self.reference.setDashPattern([4, 3])
        self.reference.setCapStyle(Qt.PenCapStyle.FlatCap)
        self.ghost = QPen(QColor(self.tokens.accent), 2)
        self.ghost.setDashPattern([1, 2])
        self.ghost.setCapStyle(Qt.PenCapStyle.RoundCap)
        self.resident = QPen(self.text, 1.25)
        self.resident.setJoinStyle(Qt.PenJoinStyle.BevelJoin)


@lru_cache(maxsize=8)
def ink(scheme: Scheme, ratio: float) -> Ink:
    """The ink of a scheme; needs a QGuiApplication."""
    return Ink(scheme, ratio)


_smalls: dict[str, QFont] = {}
"""Made once: a font that was just made looks its glyphs up anew."""


def small(font: QFont) -> QFont:
    """A chart's own size of a widget's font: 11 where the body is 13, figures of equal width."""
    key = font.key()
    if key not in _smalls:
        result = QFont(font)
        result.setPixelSize(max(9, round(QFontInfo(font).pixelSize() * 11 / 13)))
        result.setFeature(QFont.Tag("tnum"), 1)
        _smalls[key] = result
    return _smalls[key]


def _brush(kind: str, colour: QColor, paper: QColor, ratio: float) -> QBrush:
    """A colour with the texture that tells its kind apart in print and for eyes that see no hue."""
    if kind == "codes":
        return QBrush(colour)
    side = round(_TILE * ratio)
    tile = QPixmap(side, side)
    hatch = kind == "foreign"
    tile.fill(paper if hatch else colour)
    painter = QPainter(tile)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(ratio, ratio)
    if hatch:
        colour = QColor(colour)
        colour.setAlpha(60)
        painter.fillRect(QRectF(0, 0, _TILE, _TILE), colour)
        colour.setAlpha(190)
        mark = colour
    else:
        mark = QColor(0, 0, 0, 70)
    painter.setPen(QPen(mark, 1))
    _texture(painter, kind, mark)
    painter.end()
    brush = QBrush(tile)
    brush.setTransform(QTransform.fromScale(1 / ratio, 1 / ratio))
    return brush


def _texture(painter: QPainter, kind: str, mark: QColor) -> None:
    size = float(_TILE)
    if kind == "parameters":
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(mark)
        for x, y in ((1.5, 1.5), (4.5, 4.5)):
            painter.drawEllipse(QPointF(x, y), 0.8, 0.8)
    elif kind == "sinks":
        painter.drawLine(QLineF(0.5, 0, 0.5, size))
        painter.drawLine(QLineF(3.5, 0, 3.5, size))
    elif kind == "side":
        painter.drawLine(QLineF(0, 0.5, size, 0.5))
        painter.drawLine(QLineF(0, 3.5, size, 3.5))
    else:
        # Three strokes let the diagonal run on from tile to tile.
        sign = 1 if kind == "exact" else -1
        for shift in (-size, 0.0, size):
            middle, rise = size / 2, sign * size / 2
            painter.drawLine(QLineF(shift, middle + rise, shift + size, middle - rise))
