"""Where the settings stand, in words, and the one button that belongs to it."""

from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from studio.ui import parts, words
from studio.ui.applying import Standing
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import PrefillStep

SET = "Set for the next message."
IN_USE = "In use by this conversation."
QUEUED = "Waits for the end of this reply, then reads the conversation again."
APPLYING = "Being applied."
LET_GO = "Let go to use this."
NOT_YET = "Not in use yet."
READING = "Reading the conversation again through this cache"


@dataclass(frozen=True, slots=True)
class Shown:
    """All that the words depend on."""

    config: KVCacheConfig
    """What the controls stand for."""
    standing: Standing
    in_use: str
    """The name of the setting in use."""
    talking: bool
    """A conversation has begun."""
    in_hand: bool
    """A control is held or was moved just now: what it comes to will be applied by itself."""
    tokens: int
    """Tokens that would be read again, 0 when unknown."""
    speed: float | None
    """Tokens read per second, measured."""
    progress: PrefillStep | None
    """How far reading again has come."""

    @property
    def differs(self) -> bool:
        """True when the controls say something else than what is in use."""
        return self.config != self.standing.in_use

    @property
    def waits(self) -> bool:
        """True while something is queued or running."""
        return self.standing.queued is not None or self.standing.running is not None

    @property
    def sentence(self) -> str:
        """Where the settings stand."""
        if self.standing.running is not None and self.progress is not None:
            return f"{READING}: {words.tokens_of(self.progress.done, self.progress.total)}."
        if self.standing.queued not in (None, self.standing.running):
            return QUEUED
        if self.standing.running is not None:
            return APPLYING
        if not self.differs:
            return IN_USE if self.talking else SET
        if not self.talking:
            return LET_GO if self.in_hand else NOT_YET
        again = self._again()
        if self.in_hand:
            return f"Let go to use this: {again}."
        return f"Not in use: {self.in_use} goes on. Apply: {again}."

    def _again(self) -> str:
        if not self.tokens:
            return "the conversation is read again"
        text = f"{words.count(self.tokens, 'token')} are read again"
        if self.speed:
            text += f", about {words.seconds(self.tokens / self.speed)} predicted"
        return text


class StandingRow(QWidget):
    """Words, a thin bar while the conversation is read again, and Apply or Cancel where they help."""

    apply_clicked = Signal()
    cancel_clicked = Signal()

    def __init__(self) -> None:
        super().__init__()
        # Room for the longest sentence, so that the panel doesn't move while a slider is dragged; large text
        # has none to spare.
        self.words = parts.Words("small", 1 if parts.large_text() else 2)
        self.apply_button = parts.button(
            "Apply", "primary", "Read the conversation again through this cache", "Apply cache settings"
        )
        self.cancel_button = parts.button(
            "Cancel", "", "Leave the cache as it is; the controls stay where they are", "Cancel applying"
        )
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setAccessibleName("Reading the conversation again")
        # The bar keeps its place and the row is as high as its small buttons: nothing jumps below the hand.
        policy = self.bar.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.bar.setSizePolicy(policy)
        for hidden in (self.bar, self.apply_button, self.cancel_button):
            hidden.hide()
        self._buttons = QHBoxLayout()
        parts.margins(self._buttons, 0, 0, 0, 0, 2)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 8)
        row.addLayout(self._buttons)
        row.addStretch(1)
        row.addWidget(self.cancel_button)
        row.addWidget(self.apply_button)
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 4)
        column.addWidget(self.words)
        column.addWidget(self.bar)
        column.addLayout(row)
        self.apply_button.clicked.connect(self.apply_clicked)
        self.cancel_button.clicked.connect(self.cancel_clicked)

    def add_button(self, button: QWidget) -> None:
        """A small button at the start of the row."""
        self._buttons.addWidget(button)

    def show_standing(self, shown: Shown) -> None:
        """Say where the settings stand."""
        if shown.sentence != self.words.text():
            self.words.setText(shown.sentence)
        progress = shown.progress if shown.standing.running is not None else None
        self.bar.setVisible(progress is not None)
        self.bar.setValue(round(1000 * progress.done / max(1, progress.total)) if progress else 0)
        waits = shown.waits and shown.talking
        self.cancel_button.setVisible(waits)
        self.apply_button.setVisible(shown.differs and not shown.waits and not shown.in_hand and not waits)
