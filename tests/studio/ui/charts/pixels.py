"""Reading a chart's pixels, where in a column or row which kind is seen; and turning the wheel over them."""

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QWheelEvent
from PySide6.QtWidgets import QApplication

from studio.ui.charts.ink import STACK
from studio.ui.charts.plot import QuietPlot
from studio.ui.theme import Scheme, kind_colour


def at(plot: QuietPlot, x: float, y: float) -> QPoint:
    """The pixel of a point in data coordinates, in the plot's viewport."""
    return plot.mapFromScene(plot.getViewBox().mapViewToScene(QPointF(x, y)))


def picture(plot: QuietPlot) -> QImage:
    """What the plot shows."""
    return plot.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def kind_of(colour: QColor, scheme: Scheme = Scheme.Dark) -> str | None:
    """The kind whose colour, or whose texture's darker mark, this is; None for none of them."""
    best, least = None, 40.0
    for kind in STACK:
        if kind == "foreign":
            continue
        full = kind_colour(kind, scheme)
        # A mark is the colour under a veil of black: every mixture of the two is the kind.
        for share in (1.0, 0.9, 0.8, 0.73):
            away = sum(
                abs(seen - share * wanted)
                for seen, wanted in zip(colour.getRgb()[:3], full.getRgb()[:3], strict=True)
            )
            if away < least:
                best, least = kind, away
    return best


def heights(image: QImage, x: int, scheme: Scheme = Scheme.Dark) -> dict[str, int]:
    """Pixels of each kind in a column."""
    found: dict[str, int] = {}
    for y in range(image.height()):
        kind = kind_of(image.pixelColor(x, y), scheme)
        if kind is not None:
            found[kind] = found.get(kind, 0) + 1
    return found


def widths(image: QImage, y: int, scheme: Scheme = Scheme.Dark) -> dict[str, tuple[int, int]]:
    """First and last pixel of each kind in a row."""
    found: dict[str, tuple[int, int]] = {}
    for x in range(image.width()):
        kind = kind_of(image.pixelColor(x, y), scheme)
        if kind is not None:
            found[kind] = (found.get(kind, (x, x))[0], x)
    return found


def wheel(
    plot: QuietPlot, x: float, turn: int, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    """Turn the wheel over a place along the bottom, half way up."""
    (_, _), (low, high) = plot.getViewBox().viewRange()
    place = QPointF(at(plot, x, (low + high) / 2))
    event = QWheelEvent(
        place, plot.viewport().mapToGlobal(place), QPoint(), QPoint(0, turn), Qt.MouseButton.NoButton, keys,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(plot.viewport(), event)
