"""Small builders of widgets, so that every label and button is dressed and named the same way."""

import sys

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QLayout, QPushButton, QSizePolicy, QWidget

IS_MAC = sys.platform == "darwin"


def surface(kind: str, parent: QWidget | None = None) -> QFrame:
    """A plain area on one of the surfaces of the stylesheet."""
    frame = QFrame(parent)
    frame.setProperty("surface", kind)
    frame.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return frame


def label(text: str = "", role: str = "body", *, wrap: bool = False) -> QLabel:
    """Words in one of the text roles of the stylesheet; never read as rich text."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("text-role", role)
    made.setWordWrap(wrap)
    if wrap:
        made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
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


def hairline() -> QFrame:
    """A one-pixel separator."""
    line = QFrame()
    line.setFixedHeight(1)
    line.setProperty("surface", "bottom")
    return line


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
