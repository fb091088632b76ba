"""A report on paper: Qt lays the text out and draws the charts as lines, not as pixels."""

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QImage,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
    QPyTextObject,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtSvg import QSvgRenderer

from studio.ui import fonts
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.report.compare import comparison
from veloxquant_mlx.report.content import document
from veloxquant_mlx.report.document import Chart, Document
from veloxquant_mlx.report.ink import colours, standing_alone
from veloxquant_mlx.report.render import chart_files, printed
from veloxquant_mlx.report.schema import read_report
from veloxquant_mlx.report.words import clean
from veloxquant_mlx.saving import save

WIDTH = 640
"""Units of the page between its margins that a chart takes."""
DENSITY = 2
"""Pixels of a PNG for one unit of a chart."""
_TITLE = 20
_DPI = 96
_MARGIN = 15.0
"""Millimetres."""


class Drawings(QPyTextObject):
    """Draws the charts of a text where its images stand."""

    def __init__(self, parent: QTextDocument, charts: list[Chart], *, light: bool, width: int) -> None:
        super().__init__(parent)
        self._width, self._titles = width, [chart.title for chart in charts]
        self._text = QColor(colours(light=light)["text"])
        dressed = (standing_alone(chart.svg, light=light) for chart in charts)
        self._made = [QSvgRenderer(QByteArray(svg.encode())) for svg in dressed]

    def intrinsicSize(self, text: QTextDocument, position: int, shape: QTextFormat) -> QSizeF:
        """As wide as the column, as high as the drawing is then, the title above it."""
        size = self._made[_number(shape)].defaultSize()
        return QSizeF(self._width, self._width * size.height() / max(1, size.width()) + _TITLE)

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, text: QTextDocument, position: int, shape: QTextFormat
    ) -> None:
        """Lines and words, no pixels. The title is drawn too: no page ends between the two."""
        rect = QRectF(rect)
        number = _number(shape)
        bold = QFont(text.defaultFont())
        bold.setWeight(QFont.Weight.DemiBold)
        painter.save()
        painter.setFont(bold)
        painter.setPen(self._text)
        title = painter.fontMetrics().elidedText(
            clean(self._titles[number]), Qt.TextElideMode.ElideRight, round(rect.width())
        )
        painter.drawText(QRectF(rect.left(), rect.top(), rect.width(), _TITLE), 0, title)
        painter.restore()
        self._made[number].render(painter, rect.adjusted(0, _TITLE, 0, 0))


def text_document(report: Document, *, light: bool = True, width: int = WIDTH) -> QTextDocument:
    """The report as a text of Qt's, for paper or for a window."""
    made = QTextDocument()
    made.setDefaultFont(QFont(fonts.interface_font(1.0)))
    html, charts = printed(report, width, light=light)
    handler = Drawings(made, charts, light=light, width=width)
    made.documentLayout().registerHandler(QTextFormat.ObjectTypes.ImageObject.value, handler)
    made.setHtml(html)
    return made


def pdf(report: Document) -> bytes:
    """A4 pages with their numbers."""
    text = text_document(report)
    font = text.defaultFont()
    # Figures of one width are glyphs that a PDF knows no characters of: nobody could search or copy them.
    font.clearFeatures()
    text.setDefaultFont(font)
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setTitle(report.title)
    writer.setCreator("VeloxQuant Studio")
    writer.setResolution(_DPI)
    writer.setPageSize(QPageSize(QPageSize.PageSizeId.A4))
    writer.setPageMargins(QMarginsF(_MARGIN, _MARGIN, _MARGIN, _MARGIN), QPageLayout.Unit.Millimeter)
    room = QRectF(0, 0, writer.width(), writer.height() - 24)
    text.documentLayout().setPaintDevice(writer)
    text.setDocumentMargin(0)
    text.setPageSize(room.size())
    painter = QPainter(writer)
    for page in range(text.pageCount()):
        if page:
            writer.newPage()
        painter.save()
        painter.translate(0, -page * room.height())
        text.drawContents(painter, room.translated(0, page * room.height()))
        painter.restore()
        painter.setFont(text.defaultFont())
        number = f"{page + 1} of {text.pageCount()}"
        painter.drawText(QRectF(0, room.height() + 6, room.width(), 18), Qt.AlignmentFlag.AlignRight, number)
    painter.end()
    return bytes(buffer.data().data())


def png(svg: str) -> bytes:
    """A drawing as pixels, DENSITY of them for each of its units, on white."""
    drawing = QSvgRenderer(QByteArray(svg.encode()))
    image = QImage(drawing.defaultSize() * DENSITY, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    drawing.render(painter)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def print_reports(paths: list[Path]) -> None:
    """Write the last path from the one or two reports before it: PDF, or every chart as PNG into a folder.

    Raises VeloxQuantError.
    """
    *sources, target = paths
    if len(sources) not in (1, 2):
        raise VeloxQuantError("One report, or two to compare, and the file to write are needed.")
    read = [read_report(path) for path in sources]
    made = document(read[0]) if len(read) == 1 else comparison(read[0], read[1])
    if target.is_dir():
        for stem, svg in chart_files(made):
            save("The chart", target / f"{stem}.png", png(svg))
    else:
        save("The report", target, pdf(made))


def _number(shape: QTextFormat) -> int:
    return int(shape.toImageFormat().name().removeprefix("chart:"))
