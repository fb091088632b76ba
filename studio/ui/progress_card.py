"""How far a model is on its way into memory, with the button that stops it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QVBoxLayout

from studio.ui import parts, words


class ProgressCard(QFrame):
    """Hidden until ``show_progress``."""

    cancel_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("surface", "raised")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        box = QVBoxLayout(self)
        parts.margins(box, 12, 8, 8, 10, 6)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 4)
        self.words = parts.label("", "small", wrap=True)
        self.cancel = parts.button("Cancel", "link", "Stop this and leave nothing half made")
        row.addWidget(self.words, 1)
        row.addWidget(self.cancel, 0, Qt.AlignmentFlag.AlignTop)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setAccessibleName("Progress")
        box.addLayout(row)
        box.addWidget(self.bar)
        self.cancel.clicked.connect(self.cancel_requested)
        self.hide()

    def show_progress(self, fraction: float | None, sentence: str, *, may_stop: bool = True) -> None:
        """``fraction`` None when the length is unknown."""
        self.cancel.setVisible(may_stop)
        self.words.setText(words.clean(sentence))
        self.bar.setRange(0, 0 if fraction is None else 1000)
        if fraction is not None:
            self.bar.setValue(round(min(1.0, max(0.0, fraction)) * 1000))
        self.show()
