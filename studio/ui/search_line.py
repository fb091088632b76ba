"""A line to search with."""

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QLineEdit, QToolButton

from studio.ui.icons import sign_icon


class SearchLine(QLineEdit):
    """Its button to empty it is drawn in the colours of the scheme; Qt's own is black in both."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.setProperty("role", "search")
        self.setPlaceholderText(words)
        self.setAccessibleName(words)
        self.setClearButtonEnabled(True)
        self._clear = self.findChild(QToolButton)
        if self._clear is not None:
            self._clear.setAccessibleName("Clear the search")
        self._dress()

    def changeEvent(self, event: QEvent) -> None:
        """Another scheme, another colour."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange):
            self._dress()

    def _dress(self) -> None:
        # Events come before the line is made, too.
        clear = getattr(self, "_clear", None)
        if clear is not None:
            clear.setIcon(sign_icon("clear"))
