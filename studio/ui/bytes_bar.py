"""Kinds of bytes as one stacked bar inside the dashed outline of what 16 bits would take."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from studio.ui import words
from studio.ui.theme import kind_colour, scheme_now, tokens
from veloxquant_mlx.telemetry import BYTE_KINDS, KIND_LABELS, ByteCount


class BytesBar(QWidget):
    """The width of the widget is the 16-bit size; what the method takes is drawn to that scale."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bytes = ByteCount()
        self._reference = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """14 px high, any width."""
        return QSize(120, 14)

    def show_bytes(self, counted: ByteCount, reference: int) -> None:
        """``reference`` is the 16-bit size in bytes; 0 draws an empty outline."""
        self._bytes, self._reference = counted, reference
        kinds = [
            f"{KIND_LABELS[kind]} {words.megabytes(value)}"
            for kind, value in counted.as_dict().items()
            if value
        ]
        sentence = "Predicted bytes by kind: " + ", ".join(kinds) if kinds else "No bytes predicted yet"
        sentence += f"; 16 bits would take {words.megabytes(reference)}" if reference else ""
        self.setToolTip(sentence)
        self.setAccessibleName(sentence)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Segments from the left, then the outline over them."""
        scheme, t = scheme_now(), tokens()
        painter = QPainter(self)
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        scale = frame.width() / max(self._reference, self._bytes.total, 1)
        left = frame.left()
        for kind in BYTE_KINDS:
            width = getattr(self._bytes, kind) * scale
            if width > 0:
                painter.fillRect(QRectF(left, 0, width, self.height()), kind_colour(kind, scheme))
                if width > 4:
                    painter.fillRect(QRectF(left + width - 1, 0, 1, self.height()), QColor(t.raised))
                left += width
        pen = QPen(kind_colour("reference", scheme), 1, Qt.PenStyle.CustomDashLine)
        pen.setDashPattern([3, 3])
        painter.setPen(pen)
        painter.drawRect(frame)
        painter.end()
