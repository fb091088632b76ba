"""Read-only text as high as its words need: running text rendered as Markdown, or code in its lines."""

import time

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QKeyEvent,
    QMouseEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextEdit

from studio.ui import fonts, markdown, parts, words
from studio.ui.highlight import Highlighter, knows
from studio.ui.theme import tokens
from studio.ui.tints import Tints

SHARE = 10
"""A text that grows is laid out anew when this many times the last layout's duration has passed."""


class TextView(QTextEdit):
    """The conversation scrolls, not the view. ``link_clicked`` carries an address; nothing is opened."""

    link_clicked = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._filling = False
        document = markdown.SafeDocument(self)
        document.setDocumentMargin(0)
        self.setDocument(document)
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self._pressed = QPoint()
        self.tints = Tints(self)
        document.documentLayout().documentSizeChanged.connect(lambda _size: self._fit())

    def sizeHint(self) -> QSize:
        """The document's own height."""
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The conversation scrolls, but for lines that go on to the side."""
        if abs(event.angleDelta().x()) > abs(event.angleDelta().y()):
            super().wheelEvent(event)
        else:
            event.ignore()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width is another height."""
        super().resizeEvent(event)
        self._fit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Where a click began."""
        self._pressed = event.position().toPoint()
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click on a link, not a selection that ends on one."""
        super().mouseReleaseEvent(event)
        place = event.position().toPoint()
        if event.button() == Qt.MouseButton.LeftButton and (place - self._pressed).manhattanLength() < 4:
            self._follow(self.anchorAt(place))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """The address of what is under the pointer is its tooltip, or what is known of the token there."""
        super().mouseMoveEvent(event)
        place = event.position().toPoint()
        address = words.clean(self.anchorAt(place))
        self.viewport().setCursor(
            Qt.CursorShape.PointingHandCursor if address else Qt.CursorShape.IBeamCursor
        )
        # A tooltip that looks like HTML would be read as such.
        self.viewport().setToolTip(address.replace("<", "‹")[:500] or self.tints.tip_at(place))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return on a link, for the keyboard."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            cursor = self.textCursor()
            if cursor.charFormat().isAnchor():
                self._follow(cursor.charFormat().anchorHref())
                return
        super().keyPressEvent(event)

    def _follow(self, address: str) -> None:
        if address and not self.textCursor().hasSelection():
            self.link_clicked.emit(words.clean(address))

    def _fit(self) -> None:
        if self._filling:
            return
        bar = self.horizontalScrollBar()
        extra = bar.sizeHint().height() if self._scrolls() and bar.maximum() > 0 else 0
        height = int(self.document().size().height() + 0.99) + 1 + extra
        if height != self.minimumHeight():
            self.setFixedHeight(height)

    def _scrolls(self) -> bool:
        return self.horizontalScrollBarPolicy() != Qt.ScrollBarPolicy.ScrollBarAlwaysOff


class ProseView(TextView):
    """Running text that may still grow; Markdown where that is quick, else words as they are."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._text = ""
        self._drawn = ""
        self._plain = False
        self._end = QTextCursor(self.document())
        """Where what is new is put."""
        self._again = 0.0
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.timeout.connect(lambda: self._draw())

    def show_text(self, text: str, closed: bool) -> None:
        """Show the text so far. What grows is laid out as often as it can be without holding anything up."""
        self._text = text
        if text == self._drawn and not closed:
            return
        wait = self._again - time.perf_counter()
        if closed or (wait <= 0 and not self.textCursor().hasSelection()):
            self._draw()
        elif not self._late.isActive():
            self._late.start(max(1, round(1000 * wait)))

    def changeEvent(self, event: QEvent) -> None:
        """Code is drawn on a surface of the scheme: another scheme, another layout."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._drawn:
            # Later: while Qt goes from widget to widget with new colours, none should be rebuilt.
            QTimer.singleShot(0, self, self._redraw)

    def _redraw(self) -> None:
        self._drawn, self._plain = "", False
        self._draw()

    def _draw(self) -> None:
        self._late.stop()
        began = time.perf_counter()
        text = self._text
        if text == self._drawn:
            return
        self._filling = True
        try:
            if self._plain and text.startswith(self._drawn):
                new = words.clean(text[len(self._drawn) :])
                self._end.insertText(markdown.broken(new, self._end.positionInBlock()))
            elif not (self._drawn and markdown.grow(self._end, self._drawn, text)):
                scale = parts.text_scale()
                self._plain = not markdown.render(self.document(), text.rstrip("\n"), tokens(), scale)
                self._end.movePosition(QTextCursor.MoveOperation.End)
        finally:
            self._filling = False
        self._drawn = text
        self.tints.again()
        self._fit()
        now = time.perf_counter()
        self._again = now + SHARE * (now - began)


class CodeView(TextView):
    """Code in its own lines, in colours where the language is known; what is wide scrolls to the side."""

    def __init__(self, language: str) -> None:
        super().__init__(f"Code, {language}" if language else "Code")
        self._shown = ""
        self._letters = QTextCharFormat()
        self._letters.setFontFamilies([fonts.fixed_family()])
        self._letters.setProperty(QTextFormat.Property.FontPixelSize, round(12 * parts.text_scale()))
        self.setLineWrapMode(QTextEdit.LineWrapMode.NoWrap)
        self.setWordWrapMode(QTextOption.WrapMode.NoWrap)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self._colours = Highlighter(self.document(), language, tokens()) if knows(language) else None

    def code(self) -> str:
        """What the model wrote."""
        return self._shown

    def show_text(self, text: str) -> None:
        """Show the code so far; what stands already is not laid out again."""
        text = text.removesuffix("\n")
        if text == self._shown:
            return
        cursor = QTextCursor(self.document())
        self._filling = True
        if text.startswith(self._shown):
            cursor.movePosition(QTextCursor.MoveOperation.End)
            new = text[len(self._shown) :]
        else:
            cursor.select(QTextCursor.SelectionType.Document)
            new = text
        cursor.insertText(markdown.broken(words.clean(new), cursor.positionInBlock()), self._letters)
        self._shown = text
        self.tints.again()
        self._filling = False
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another scheme has other colours."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and getattr(self, "_colours", None) is not None:
            QTimer.singleShot(0, self, self._redress)

    def _redress(self) -> None:
        if self._colours:
            self._colours.dress(tokens())
        self.tints.again()
