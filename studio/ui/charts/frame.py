"""The frame around a chart: its title and words above, the chart or a sentence in its place, a line below."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QStackedLayout, QVBoxLayout, QWidget

from studio.ui.charts.plot import QuietPlot
from studio.ui.parts import Elided, label, margins


class ChartFrame(QWidget):
    """Holds one plot. Words are plain text; nothing here knows what is drawn."""

    def __init__(self, title: str, unit: str, plot: QuietPlot) -> None:
        super().__init__()
        self.setAccessibleName(title)
        self._title, self._unit = label(title, "strong"), label(unit, "small")
        self._words = Elided()
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setProperty("text-role", "small")
        self._words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._sentence = label("", "lead", wrap=True)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._detail = label("", "small", wrap=True)
        self._detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._detail.hide()
        head = QHBoxLayout()
        margins(head, 0, 0, 0, 0, 8)
        head.addWidget(self._title)
        head.addWidget(self._unit)
        head.addStretch(1)
        head.addWidget(self._words, 8)
        self._body = QStackedLayout()
        self._body.addWidget(plot)
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

    @property
    def words(self) -> str:
        """The words beside the title."""
        return self._words.text()

    @property
    def empty(self) -> str:
        """The sentence shown in place of the chart, or an empty string."""
        return self._sentence.text() if self._body.currentIndex() else ""

    @property
    def detail(self) -> str:
        """The line below the chart."""
        return self._detail.text()

    def set_head(self, *, title: bool, words: bool) -> None:
        """Which of the title and the words beside it are said here and not elsewhere on the panel."""
        self._title.setVisible(title)
        self._words.setVisible(words)

    def set_words(self, text: str) -> None:
        """Words at the right of the title; a screen reader hears them with the chart's name."""
        if text != self._words.text():
            self._words.setText(text)
            self._words.setToolTip(text)
            self.setAccessibleDescription(text)

    def set_empty(self, sentence: str) -> None:
        """Show a sentence instead of the chart; an empty one shows the chart."""
        self._sentence.setText(sentence)
        self._body.setCurrentIndex(1 if sentence else 0)

    def set_detail(self, text: str) -> None:
        """Words below the chart; none hide the line."""
        if text != self._detail.text():
            self._detail.setText(text)
            self._detail.setVisible(bool(text))
