"""Tokens of a text in colour: painted over the text, which stays as it is, with details under the pointer."""

from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QTextEdit, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.spans import shown_spans
from studio.ui.theme import scheme_now, tint_colour
from studio.ui.token_fidelity import FAR, LEVEL_WORDS, NEAR, SAME, TintedToken

_STRENGTH = {NEAR: 44, FAR: 66}
"""Opacity of 255 behind the words: they stay well readable in both schemes."""
_LINES = {
    NEAR: QTextCharFormat.UnderlineStyle.DotLine,
    FAR: QTextCharFormat.UnderlineStyle.SingleUnderline,
}
"""Not by colour alone."""


class Tints:
    """Of one text view. ``again`` after the view drew its text anew."""

    def __init__(self, view: QTextEdit) -> None:
        self._view = view
        self._text = ""
        self._tokens: Sequence[TintedToken] = ()
        self._spans: list[tuple[int, int, TintedToken]] = []

    def show(self, text: str, tokens: Sequence[TintedToken]) -> None:
        """The tokens of ``text``, which the view shows in its own way; none take the colour away."""
        self._text, self._tokens = text, tokens
        self.again()

    def again(self) -> None:
        """Find the tokens in what the view shows now."""
        if not self._tokens and not self._spans:
            return
        spans = shown_spans(
            self._text, self._view.toPlainText(), [(token.begin, token.end) for token in self._tokens]
        )
        self._spans = [
            (*span, token) for span, token in zip(spans, self._tokens, strict=True) if span is not None
        ]
        self._view.setExtraSelections([self._selection(*span) for span in self._spans if span[2].level])

    def levels(self) -> list[tuple[str, int]]:
        """Words and level of every token that is coloured, as they are seen."""
        seen = self._view.toPlainText().encode("utf-16-le")
        return [
            (seen[2 * begin : 2 * end].decode("utf-16-le"), token.level)
            for begin, end, token in self._spans
            if token.level
        ]

    def tip_at(self, place: QPoint) -> str:
        """What is known of the token at a place of the viewport, as rich text; '' beside all of them."""
        if not self._spans:
            return ""
        across = self._view.horizontalScrollBar().value()
        point = QPointF(place.x() + across, place.y())
        at = self._view.document().documentLayout().hitTest(point, Qt.HitTestAccuracy.ExactHit)
        number = bisect_right(self._spans, at, key=lambda span: span[0]) - 1
        if at < 0 or number < 0 or at >= self._spans[number][1]:
            return ""
        return self._spans[number][2].tip

    def _selection(self, begin: int, end: int, token: TintedToken) -> QTextEdit.ExtraSelection:
        made = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self._view.document())
        cursor.setPosition(begin)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        form = QTextCharFormat()
        colour = tint_colour(token.level, scheme_now())
        form.setUnderlineStyle(_LINES[token.level])
        form.setUnderlineColor(colour)
        form.setBackground(_behind(colour, token.level))
        made.cursor, made.format = cursor, form
        return made


class TintKey(QWidget):
    """What the two colours mean."""

    def __init__(self) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        parts.margins(row, 0, 0, 0, 0, 6)
        for level in (NEAR, FAR):
            row.addWidget(_Swatch(level))
            row.addWidget(parts.label(LEVEL_WORDS[level], "small"))
            row.addSpacing(8)
        row.addStretch(1)


class FidelityLine(QWidget):
    """The comparison of a reply in words, and the key to its colours where there are any."""

    def __init__(self) -> None:
        super().__init__()
        self.label = parts.label("", "small", wrap=True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.key = TintKey()
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 2)
        column.addWidget(self.label)
        column.addWidget(self.key)
        self.hide()

    def show_summary(self, text: str, tokens: Sequence[TintedToken]) -> None:
        """Words, none of which hide the line, and the tokens that are coloured or not."""
        self.label.setText(text)
        self.key.setVisible(any(token.level != SAME for token in tokens))
        self.setVisible(bool(text))


class _Swatch(QWidget):
    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level
        self.setFixedSize(QSize(round(22 * parts.text_scale()), round(13 * parts.text_scale())))

    def paintEvent(self, event: QPaintEvent) -> None:
        """A piece of tinted text without the text."""
        colour = tint_colour(self._level, scheme_now())
        painter = QPainter(self)
        painter.fillRect(QRectF(self.rect()).adjusted(0, 0, 0, -1), _behind(colour, self._level))
        pen = QPen(colour, 1.5)
        if self._level == NEAR:
            pen.setDashPattern([1, 1.5])
        painter.setPen(pen)
        painter.drawLine(QPointF(0, self.height() - 1), QPointF(self.width(), self.height() - 1))
        painter.end()


def _behind(colour: QColor, level: int) -> QColor:
    made = QColor(colour)
    made.setAlpha(_STRENGTH[level])
    return made
