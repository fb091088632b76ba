"""A view on disk: as a picture, as a drawing of lines and words, or as a table of its figures."""

import csv
import io
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

from PySide6.QtCore import QBuffer, QIODevice, QPoint, QRect, QSize
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QRegion
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QWidget

from studio.ui.charts.frame import ChartFrame, Table
from studio.ui.charts.legend import Legend
from studio.ui.theme import tokens_for
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.saving import save

PAD = 16
SCALE = 2.0
"""Pixels of a picture per pixel of the screen."""
_TEXT = re.compile(
    r'(<text [^>]*?font-family="([^"]*))(" font-size="([^"]*)" font-weight="([^"]*)"[^>]*?)\s*>([^<]*)</text>'
)
_WHAT = {"png": "The picture", "svg": "The drawing", "csv": "The table"}
_FILTERS = {"png": "PNG picture (*.png)", "svg": "SVG drawing (*.svg)", "csv": "CSV table (*.csv)"}


def picture(view: ChartFrame, legend: Legend | None) -> bytes:
    """The view as PNG, at twice the screen's pixels, with its legend."""
    size = _size(view, legend)
    image = QImage(size * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    painter = QPainter(image)
    _paint(painter, size, view, legend)
    painter.end()
    return _bytes(lambda buffer: image.save(buffer, "PNG"))  # type: ignore[call-overload]


def drawing(view: ChartFrame, legend: Legend | None) -> bytes:
    """The view as SVG, with its legend."""
    size = _size(view, legend)

    def write(buffer: QBuffer) -> None:
        made = QSvgGenerator()
        made.setOutputDevice(buffer)
        made.setResolution(96)
        made.setSize(size)
        made.setViewBox(QRect(QPoint(0, 0), size))
        made.setTitle(view.title)
        made.setDescription(view.words)
        painter = QPainter(made)
        _paint(painter, size, view, legend)
        painter.end()

    return _TEXT.sub(_as_wide_as_here, _bytes(write).decode("utf-8")).encode("utf-8")


def figures(table: Table) -> bytes:
    """A table as CSV in UTF-8; what is unknown is an empty cell."""
    names, rows = table
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def save_view(view: ChartFrame, legend: Legend | None, kind: str, path: Path) -> None:
    """Write a view as ``png``, ``svg`` or ``csv``, whole or not at all. Raises VeloxQuantError."""
    if kind == "csv":
        data = figures(view.table())
    else:
        data = picture(view, legend) if kind == "png" else drawing(view, legend)
    save(_WHAT[kind], path, data)


def ask_and_save(view: ChartFrame, legend: Legend | None, kind: str) -> tuple[str, str]:
    """Ask where to, then save; the path, or "" and why not. Both are empty when the person chose nowhere."""
    stem = view.title.lower().replace(" ", "-")
    path, _ = QFileDialog.getSaveFileName(
        view, f"Save {view.title}", str(Path.home() / f"{stem}.{kind}"), _FILTERS[kind]
    )
    if not path:
        return "", ""
    try:
        save_view(view, legend, kind, Path(path))
    except VeloxQuantError as error:
        return "", str(error)
    return path, ""


def _size(view: ChartFrame, legend: Legend | None) -> QSize:
    below = 0 if legend is None else legend.heightForWidth(view.width()) + PAD // 2
    return QSize(view.width() + 2 * PAD, view.height() + below + 2 * PAD)


def _paint(painter: QPainter, size: QSize, view: ChartFrame, legend: Legend | None) -> None:
    painter.fillRect(QRect(QPoint(0, 0), size), QColor(tokens_for(view.scheme).panel))
    shown, ringed = view.more.isVisibleTo(view), view.ringed
    view.ringed = False
    view.more.setVisible(False)
    view.render(painter, QPoint(PAD, PAD), QRegion(), QWidget.RenderFlag.DrawChildren)
    view.more.setVisible(shown)
    view.ringed = ringed
    if legend is not None:
        painter.save()
        painter.translate(PAD, PAD + view.height() + PAD // 2)
        legend.paint(painter, view.width())
        painter.restore()


def _as_wide_as_here(found: re.Match[str]) -> str:
    """Words of a drawing with their width: in another font, where ours is missing, they would meet."""
    begin, family, rest, size, weight, said = found.groups()
    font = QFont(family)
    font.setPixelSize(round(float(size)))
    font.setWeight(QFont.Weight(int(weight)))
    font.setFeature(QFont.Tag("tnum"), 1)
    wide = QFontMetricsF(font).horizontalAdvance(unescape(said))
    fixed = f'textLength="{wide:.2f}" lengthAdjust="spacingAndGlyphs"' if wide else ""
    return f"{begin}, sans-serif{rest} {fixed}>{said}</text>"


def _bytes(write: Callable[[QBuffer], object]) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    write(buffer)
    return bytes(buffer.data().data())
