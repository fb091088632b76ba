"""What the middle says before anything was said: two sentences and the next thing to do."""

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.assets import asset

EXAMPLES = (
    "Why is the sky blue, and why is it red in the evening?",
    "Tell me a story about a lighthouse keeper.",
    "What is the capital of France?",
)


class Mark(QWidget):
    """The app's icon, drawn sharp at any size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        file = asset("icon.svg")
        self._renderer = QSvgRenderer(QByteArray(file.read_bytes() if file.is_file() else b""))
        self.setFixedSize(QSize(size, size))

    def paintEvent(self, event: QPaintEvent) -> None:
        """The icon, or nothing in a damaged installation."""
        if self._renderer.isValid():
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._renderer.render(painter, QRectF(self.rect()))
            painter.end()


class EmptyState(QWidget):
    """``action_chosen`` is the one button; ``example_chosen`` carries words for the prompt box."""

    action_chosen = Signal()
    example_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.title = parts.label("", "title", wrap=True)
        self.lead = parts.label("", "lead", wrap=True)
        for line in (self.title, self.lead):
            line.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.action = parts.button("", "primary")
        self.action.clicked.connect(self.action_chosen)
        self._examples = QWidget()
        column = QVBoxLayout(self._examples)
        parts.margins(column, 0, 0, 0, 0, 6)
        for text in EXAMPLES:
            chip = parts.button(text, "chip", "Put this into the message box")
            chip.clicked.connect(lambda _=False, text=text: self.example_chosen.emit(text))
            column.addWidget(chip, 0, Qt.AlignmentFlag.AlignHCenter)
        inner = QWidget()
        inner.setMaximumWidth(460)
        lines = QVBoxLayout(inner)
        parts.margins(lines, 0, 0, 0, 0, 8)
        lines.addWidget(Mark(56), 0, Qt.AlignmentFlag.AlignHCenter)
        lines.addSpacing(8)
        lines.addWidget(self.title)
        lines.addWidget(self.lead)
        lines.addSpacing(8)
        lines.addWidget(self.action, 0, Qt.AlignmentFlag.AlignHCenter)
        lines.addWidget(self._examples)
        row = QHBoxLayout()
        parts.margins(row, 24, 0, 24, 0, 0)
        row.addStretch(1)
        row.addWidget(inner, 1000)
        row.addStretch(1)
        page = QVBoxLayout(self)
        parts.margins(page, 0, 16, 0, 8, 0)
        page.addStretch(2)
        page.addLayout(row)
        page.addStretch(3)
        self.show_no_model("")

    def show_no_model(self, action: str) -> None:
        """No model is loaded; ``action`` names the button, '' hides it."""
        self.title.setText("See what a KV cache costs, and what it changes")
        self.lead.setText(
            "Load a model at the left, or get the small starter model if you have none. "
            "Then talk to it while every byte of its cache is counted below."
        )
        self._show(action, examples=False)

    def show_model(self, name: str, uncompressed: str = "") -> None:
        """A model is loaded and nothing was said yet; ``uncompressed`` says why none of it is compressed."""
        self.title.setText(f"{name} is ready")
        self.lead.setText(
            uncompressed
            or "Ask something and watch the cache grow below, beside what 16 bits would have taken. "
            "Then change a setting at the right: the conversation is read again through it. Regenerate to "
            "see what it does to the answer."
        )
        self._show("", examples=True)

    def show_busy(self, sentence: str) -> None:
        """A model is on its way."""
        self.title.setText("One moment")
        self.lead.setText(sentence)
        self._show("", examples=False)

    def _show(self, action: str, *, examples: bool) -> None:
        self.action.setText(action)
        self.action.setAccessibleName(action or "Get a model")
        self.action.setVisible(bool(action))
        self._examples.setVisible(examples)
