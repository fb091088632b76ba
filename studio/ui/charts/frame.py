"""The frame around a view: title and words above, the view or a sentence in its place, a line below."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QPoint, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QHBoxLayout, QMenu, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from studio.ui.charts.scene import Scene
from studio.ui.parts import Elided, label, margins
from studio.ui.theme import Scheme, tokens_for

Table = tuple[Sequence[str], Iterable[Sequence[object]]]
"""Column names, each with its unit, and rows of plain values."""

SAVED_AS = {"png": "Picture (PNG)…", "svg": "Drawing (SVG)…", "csv": "Figures (CSV)…"}


class ChartFrame(QWidget):
    """One view with its menu, and a ``key`` to its colours where it has its own.

    Words are plain text; what is drawn is for the subclass to know.
    """

    save_requested = Signal(str)
    """``png``, ``svg`` or ``csv``."""

    def __init__(self, title: str, unit: str, body: QWidget, key: QWidget | None = None) -> None:
        super().__init__()
        self.title = title
        self.scheme = Scheme.Dark
        self.ringed = False
        """Whether the focus is shown."""
        self.setAccessibleName(title)
        self._title, self._unit, self._words = label(title, "strong"), _line(unit), _line()
        self._words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._sentence = label("", "lead", wrap=True)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._detail = _line()
        self._detail.setObjectName("detail")
        self._detail.hide()
        self.more = QToolButton()
        self.more.setText("⋯")
        self.more.setProperty("role", "more")
        self.more.setAccessibleName(f"Save {title}")
        self.more.setToolTip("Save this view as a picture, a drawing or a table")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setCursor(Qt.CursorShape.PointingHandCursor)
        self.menu = QMenu(self)
        self.menu.setAccessibleName(f"Save {title}")
        for kind, words in SAVED_AS.items():
            action = QAction(words, self.menu)
            action.setData(kind)
            self.menu.addAction(action)
        self.menu.triggered.connect(lambda action: self.save_requested.emit(action.data()))
        self.more.setMenu(self.menu)
        head = QHBoxLayout()
        margins(head, 0, 0, 0, 0, 8)
        head.addWidget(self._title)
        head.addWidget(self._unit)
        head.addWidget(self._words, 1)
        if key is not None:
            head.addWidget(key)
        head.addWidget(self.more)
        self._body = QStackedLayout()
        self._body.addWidget(body)
        # Words are as high as their lines: what is left is shared above and below.
        middle = QWidget()
        around = QVBoxLayout(middle)
        margins(around, 0, 0, 0, 0, 0)
        around.addStretch(1)
        around.addWidget(self._sentence)
        around.addStretch(1)
        self._body.addWidget(middle)
        column = QVBoxLayout(self)
        margins(column, 0, 0, 0, 0, 2)
        column.addLayout(head)
        column.addLayout(self._body, 1)
        column.addWidget(self._detail)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.menu.setEnabled(False)

    @property
    def words(self) -> str:
        """The words beside the title."""
        return self._words.text()

    @property
    def empty(self) -> str:
        """The sentence shown in place of the view, or an empty string."""
        return self._sentence.text() if self._body.currentIndex() else ""

    @property
    def detail(self) -> str:
        """The line below the view."""
        return self._detail.text()

    def show_scene(self, scene: Scene) -> None:
        """Draw a scene."""
        raise NotImplementedError

    def table(self) -> Table:
        """The figures behind what is drawn."""
        raise NotImplementedError

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self.scheme = scheme
        self.update()

    def set_words(self, text: str) -> None:
        """Words at the right of the title; a screen reader hears them with the view's name."""
        if text != self._words.text():
            self._words.setText(text)
            self._words.setToolTip(text)
            self.setAccessibleDescription(text)

    def set_empty(self, sentence: str) -> None:
        """A sentence instead of the view, which then has nothing to save; an empty one shows the view."""
        if sentence != self._sentence.text():
            self._sentence.setText(sentence)
        if self._body.currentIndex() != bool(sentence):
            self._body.setCurrentIndex(1 if sentence else 0)
        self.menu.setEnabled(not sentence)
        self.more.setEnabled(not sentence)

    def set_detail(self, text: str, more: str = "") -> None:
        """Words below the view; none hide the line. ``more`` is told by the tooltip."""
        tip = f"{text}\n{more}" if more else text
        if tip != self._detail.toolTip() or text != self._detail.text():
            self._detail.setText(text)
            self._detail.setToolTip(tip)
            self._detail.setVisible(bool(text))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self.menu.isEnabled():
            self.menu.popup(event.globalPos() or self.mapToGlobal(QPoint(0, 0)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.on_key(Qt.Key(event.key())):
            super().keyPressEvent(event)

    def on_key(self, key: Qt.Key) -> bool:
        """Act on a key; False leaves it to others."""
        return False

    def focusInEvent(self, event: QFocusEvent) -> None:
        # A click shows what it chose; the ring is for those who come by keyboard.
        # A menu or another window that closes gives back what was.
        if event.reason() not in (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason):
            self.ringed = event.reason() != Qt.FocusReason.MouseFocusReason
        super().focusInEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus() and self.ringed:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(tokens_for(self.scheme).accent), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
            painter.end()


def _line(text: str = "") -> Elided:
    """Small words on one line, shortened where there is no room."""
    made = Elided(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("text-role", "small")
    return made
