"""One line at the bottom: what runs, through which cache, how far, how fast and how large."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from studio.ui import parts, words
from veloxquant_mlx.telemetry import CacheSnapshot


class StatusBar(QFrame):
    """Refreshed by the window at the pace of words. What is unknown is left out or said in words."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "bottom")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Status")
        row = QHBoxLayout(self)
        parts.margins(row, 14, 4, 14, 5, 20)
        self.model = self._line(row, "Model and compute", shrinks=True)
        self.cache = self._line(row, "Cache setting", shrinks=True)
        self.tokens = self._line(row, "Tokens and context")
        self.speed = self._line(row, "Speed, measured")
        self.memory = self._line(row, "KV memory, resident and at 16 bits", shrinks=True)
        row.addStretch(1)
        self.state = self._line(row, "State", shrinks=True)
        self._state, self._saving = "", False
        self.set_model(None)
        self.set_numbers(None, None, None)

    def set_model(self, text: str | None) -> None:
        """Name of the model and what it is computed on."""
        self._set(self.model, text or "No model loaded")

    def set_cache(self, text: str) -> None:
        """The cache setting that the next message goes through."""
        self._set(self.cache, text)

    def set_state(self, text: str) -> None:
        """What the engine is doing, in words."""
        self._state = text
        self._set(self.state, words.SAVING if self._saving else text)

    def set_saving(self, on: bool) -> None:
        """While the cache of a chat is written, that is what the engine is doing."""
        self._saving = on
        self.set_state(self._state)

    def set_numbers(self, snapshot: CacheSnapshot | None, context: int | None, speed: float | None) -> None:
        """Figures of the running cache; None where there is none."""
        # A model without keys and values counts none: 0 would be no figure but the lack of one.
        tokens = snapshot.tokens or None if snapshot else None
        self._set(self.tokens, words.tokens_of(tokens, context) if tokens or context else "")
        self._set(self.speed, words.speed(speed) if speed is not None else "")
        if snapshot is None:
            self._set(self.memory, "")
            return
        self._set(
            self.memory,
            f"KV {words.megabytes(snapshot.resident_bytes)} resident, "
            f"{words.megabytes(snapshot.reference_bytes)} in 16 bits",
            "Resident is measured; the 16-bit size of the same tokens is counted.",
        )

    def _line(self, row: QHBoxLayout, name: str, *, shrinks: bool = False) -> QLabel:
        line = parts.Elided() if shrinks else QLabel()
        line.setTextFormat(Qt.TextFormat.PlainText)
        line.setProperty("text-role", "muted")
        line.setAccessibleName(name)
        row.addWidget(line)
        return line

    def _set(self, line: QLabel, text: str, tip: str = "") -> None:
        if line.text() != text:
            line.setText(text)
            line.setToolTip(tip or text)
        line.setVisible(bool(text))
