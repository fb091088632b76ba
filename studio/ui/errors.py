"""A calm notice in the place where the person acts: one sentence, its details to copy, a way out."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QVBoxLayout, QWidget

from studio.ui import parts, words


class Notice(QFrame):
    """Hidden until something is shown. ``dismissed`` when the person put it away."""

    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None, *, wide: bool = False) -> None:
        """``wide`` puts words and links into one row, for places with room."""
        super().__init__(parent)
        self.setProperty("surface", "notice")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._details = ""
        self._do: Callable[[], None] | None = None
        self._words = parts.label("", wrap=True)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._copy = parts.button("Copy details", "link", "Copy what the log has about this")
        self._close = parts.button("Dismiss", "link", "Put this notice away")
        self._more = parts.button("", "link", name="More about this")
        self._more.clicked.connect(lambda: self._do and self._do())
        self._copy.clicked.connect(self._copy_details)
        self._close.clicked.connect(self._dismiss)
        links = QHBoxLayout()
        parts.margins(links, 0, 0, 0, 0, 4)
        links.addStretch(1)
        links.addWidget(self._more)
        links.addWidget(self._copy)
        links.addWidget(self._close)
        box: QBoxLayout = QHBoxLayout(self) if wide else QVBoxLayout(self)
        parts.margins(box, 12, 8, 8, 8 if wide else 4, 8 if wide else 2)
        box.addWidget(self._words, 1)
        box.addLayout(links)
        if wide:
            box.setAlignment(links, Qt.AlignmentFlag.AlignTop)
        self.hide()

    @property
    def sentence(self) -> str:
        """What is shown, '' when nothing is."""
        return self._words.text() if not self.isHidden() else ""

    def show_error(
        self, sentence: str, details: str = "", more: tuple[str, Callable[[], None]] | None = None
    ) -> None:
        """Say what went wrong. ``details`` can be copied and are not shown.

        ``more`` is one thing to do about it: its words and what is called.
        """
        self._show(sentence, details, "notice", more)

    def show_note(self, sentence: str, details: str = "") -> None:
        """Say something that went well."""
        self._show(sentence, details, "note")

    def clear(self) -> None:
        """Take the notice away, as when the person tries again."""
        self.hide()

    def _show(
        self, sentence: str, details: str, surface: str, more: tuple[str, Callable[[], None]] | None = None
    ) -> None:
        self._details = details
        self._more.setText(more[0] if more else "")
        self._more.setAccessibleName(self._more.text())
        self._more.setVisible(more is not None)
        self._do = more[1] if more else None
        self._words.setText(words.clean(sentence))
        self._copy.setText("Copy details")
        self._copy.setVisible(bool(details))
        parts.restyle(self, surface=surface)
        self.setAccessibleName(sentence)
        self.show()

    def _copy_details(self) -> None:
        QGuiApplication.clipboard().setText(words.clean(f"{self._words.text()}\n\n{self._details}"))
        self._copy.setText("Copied")

    def _dismiss(self) -> None:
        self.hide()
        self.dismissed.emit()
