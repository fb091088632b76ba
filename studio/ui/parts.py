"""Small builders of widgets, so that every label and button is dressed and named the same way."""

import sys

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QWidget,
)

IS_MAC = sys.platform == "darwin"


def surface(kind: str, parent: QWidget | None = None) -> QFrame:
    """A plain area on one of the surfaces of the stylesheet."""
    frame = QFrame(parent)
    frame.setProperty("surface", kind)
    frame.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return frame


def text_scale() -> float:
    """How large the text is against 100 %, for the few sizes that the stylesheet does not set."""
    size = QApplication.font().pixelSize()
    return size / 13 if size > 0 else 1.0


def large_text() -> bool:
    """Whether words that stand side by side at 100 % need lines of their own."""
    return text_scale() >= 1.3


class Elided(QLabel):
    """One line that gives up its middle before it is cut off. The tooltip has all of it."""

    def minimumSizeHint(self) -> QSize:
        """A few letters."""
        return QSize(
            min(self.sizeHint().width(), round(48 * text_scale())), super().minimumSizeHint().height()
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        """The words, shortened in the middle where there is no room."""
        painter = QPainter(self)
        room = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, int(self.alignment()), text)
        painter.end()


class Chip(QPushButton):
    """A button with a name that may be long: shortened in the middle where there is no room."""

    def __init__(self, tip: str) -> None:
        super().__init__()
        self._whole = ""
        self.setProperty("role", "chip")
        self.setAutoDefault(False)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setToolTip(tip)
        self.setAccessibleDescription(tip)

    def whole_text(self) -> str:
        """The name, unshortened."""
        return self._whole

    def show_text(self, text: str) -> None:
        """Set the name."""
        self._whole = text
        self.setText(text)
        self.updateGeometry()
        self._fit()

    def sizeHint(self) -> QSize:
        """Room for the whole name."""
        hint = super().sizeHint()
        lost = self.fontMetrics().horizontalAdvance(self._whole) - self.fontMetrics().horizontalAdvance(
            self.text()
        )
        # Two pixels more: advances are fractions, and rounding them must not shorten a name that fits.
        return QSize(hint.width() + max(0, lost) + 2, hint.height())

    def minimumSizeHint(self) -> QSize:
        """A few letters."""
        return QSize(
            min(self.sizeHint().width(), round(72 * text_scale())), super().minimumSizeHint().height()
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten or restore the name."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        metrics = self.fontMetrics()
        frame = super().sizeHint().width() - metrics.horizontalAdvance(self.text())
        text = metrics.elidedText(self._whole, Qt.TextElideMode.ElideMiddle, max(self.width() - frame, 20))
        if text != self.text():
            self.setText(text)


class Words(QLabel):
    """Wrapped words that are exactly as high as they are at their width.

    QLabel asks its layout for the height of the narrowest case, which leaves holes in scroll areas.
    """

    def __init__(self, role: str = "body", lines: int = 0) -> None:
        """``lines`` as in ``reserve``."""
        super().__init__()
        self._least = lines
        self.setProperty("text-role", role)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.setWordWrap(True)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def reserve(self, lines: int) -> None:
        """Stay at least this many lines high."""
        self._least = lines
        self._fit()

    def hasHeightForWidth(self) -> bool:
        """The height is settled here, not by the layout."""
        return False

    def setText(self, text: str) -> None:
        """Show words, at their height."""
        super().setText(text)
        self._fit()

    def sizeHint(self) -> QSize:
        """Any width; the height that the words take at the present one."""
        return QSize(0, self.minimumHeight())

    def minimumSizeHint(self) -> QSize:
        """Words never lose a line."""
        return self.sizeHint()

    def event(self, event: QEvent) -> bool:
        """Another width, another font or another style is another height."""
        done = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.FontChange, QEvent.Type.Polish):
            self._fit()
        return done

    def _fit(self) -> None:
        # QLabel's own heightForWidth never goes below the height that was set before.
        room = QRect(0, 0, max(self.width(), 40), 100_000)
        flags = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft
        height = self.fontMetrics().boundingRect(room, int(flags), self.text()).height()
        height = max(height, self._least * self.fontMetrics().lineSpacing())
        if height != self.minimumHeight():
            self.setFixedHeight(height)


def label(text: str = "", role: str = "body", *, wrap: bool = False) -> QLabel:
    """Words in one of the text roles of the stylesheet; never read as rich text."""
    made = Words() if wrap else QLabel()
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("text-role", role)
    made.setText(text)
    return made


def button(text: str, role: str = "", tip: str = "", name: str = "") -> QPushButton:
    """A button; ``name`` is what a screen reader says where the text alone is not enough."""
    made = QPushButton(text)
    made.setProperty("role", role)
    made.setAutoDefault(False)
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    if tip:
        made.setToolTip(tip)
    made.setAccessibleName(name or text)
    if tip:
        made.setAccessibleDescription(tip)
    return made


def clear_scroll(area: QScrollArea) -> None:
    """Let the surface below a scroll area show through it."""
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidgetResizable(True)
    area.viewport().setAutoFillBackground(False)
    content = area.widget()
    if content is not None:
        content.setAutoFillBackground(False)


def restyle(widget: QWidget, **properties: object) -> None:
    """Set dynamic properties the stylesheet looks at, and dress the widget again if one changed."""
    changed = False
    for name, value in properties.items():
        if widget.property(name.replace("_", "-")) != value:
            widget.setProperty(name.replace("_", "-"), value)
            changed = True
    if changed:
        widget.style().unpolish(widget)
        widget.style().polish(widget)
        widget.update()


def margins(layout: QLayout, left: int, top: int, right: int, bottom: int, spacing: int) -> None:
    """Margins and spacing in one line."""
    layout.setContentsMargins(left, top, right, bottom)
    layout.setSpacing(spacing)
