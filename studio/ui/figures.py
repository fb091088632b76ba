"""What a configuration will take and what the running cache takes, each figure with its origin."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from studio.core.predict import predict_bytes, reference_bytes
from studio.ui import parts, words
from studio.ui.bytes_bar import BytesBar
from veloxquant_mlx.config import KVCacheConfig, SlotShape
from veloxquant_mlx.steps import Plan
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot

PREDICTED_AT = 4096
"""Tokens of a prediction while the conversation is shorter: at a few hundred every window is still exact."""

EMPTY = "Nothing in the cache yet"
_EXAMPLE = SlotShape(heads=8, key_dim=128, value_dim=128)
_EXAMPLE_WORDS = "a slot of 8 heads × 128 channels"
"""A slot of a common 8-billion-parameter model, for predictions without a model."""


class FiguresCard(QFrame):
    """Two predicted figures with a bar of kinds, and what the controls would do to the answers; in ``rest``
    what the figures are of, what runs, and the plan.

    ``rest`` can stand elsewhere, where there is no room for it here.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "raised")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._shapes: list[SlotShape] | None = None
        self._context: int | None = None
        self._idle = False
        self._tokens = 0
        self._predicted_at = -1
        self.bits, self.bits_words = parts.label("", "figure"), parts.label("", "small", wrap=True)
        self.ratio, self.ratio_words = parts.label("", "figure"), parts.label("", "small", wrap=True)
        self.basis = parts.label("", "small", wrap=True)
        self.full = parts.label("", "small", wrap=True)
        self.full.setToolTip("Predicted for a conversation as long as the model can read")
        self.bar = BytesBar()
        self.answers = parts.label("", "small", wrap=True)
        self.answers.setToolTip(
            "The exact keys and values of this conversation, encoded anew as the controls say; its newest "
            "queries are asked again. The model is not run, and nothing is applied."
        )
        self.answers.hide()
        # As high while it says little: with the first token everything above it would move.
        self.running = parts.Words("small", 2)
        self.plan = parts.label("", "small", wrap=True)
        grid = QGridLayout()
        parts.margins(grid, 0, 0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        # Large text has no room for two figures in a row: there the words stand beside each.
        pairs = ((self.bits, self.bits_words), (self.ratio, self.ratio_words))
        for index, (figure, caption) in enumerate(pairs):
            if not parts.large_text():
                grid.setColumnStretch(index, 8 + index)
                grid.addWidget(figure, 0, index)
                grid.addWidget(caption, 1, index, Qt.AlignmentFlag.AlignTop)
            else:
                grid.setColumnStretch(1, 1)
                grid.setVerticalSpacing(6)
                grid.addWidget(figure, index, 0)
                grid.addWidget(caption, index, 1, Qt.AlignmentFlag.AlignVCenter)
        self.rest = QWidget()
        lines = QVBoxLayout(self.rest)
        parts.margins(lines, 0, 0, 0, 0, 4)
        for line in (self.basis, self.full, self.running, self.plan):
            lines.addWidget(line)
        self._column = QVBoxLayout(self)
        parts.margins(self._column, 12, 8, 12, 8, 4)
        self._column.addLayout(grid)
        self._column.addSpacing(2)
        self._column.addWidget(self.bar)
        self._column.addWidget(self.answers)
        self._column.addWidget(self.rest)
        self.bits_words.setText("per value, predicted")
        self.ratio_words.setText("than 16 bits, predicted")
        self.set_plan(None)
        self.set_snapshot(None)

    def take_back_rest(self) -> None:
        """Put ``rest`` below the bar again."""
        self._column.addWidget(self.rest)

    @property
    def tokens(self) -> int:
        """Tokens in the running cache."""
        return self._tokens

    @property
    def wants_prediction(self) -> bool:
        """True when the token count of the last prediction is no longer the one to predict at."""
        return self._predicted_at != self._at()

    def set_model(self, shapes: list[SlotShape] | None, context: int | None) -> None:
        """Shapes of the slots to predict for; None predicts for an example."""
        self._shapes, self._context = shapes, context

    def set_plan(self, plan: Plan | None) -> None:
        """What happens to the slots and how they are read, hidden where there is nothing to add."""
        _set(self.plan, plan.words if plan else "")
        usual = plan is not None and plan.replaced == len(plan.slots) and plan.words == plan.sentence
        self.plan.setHidden(plan is None or usual)
        self._idle = plan is not None and plan.idle

    def set_snapshot(self, snapshot: CacheSnapshot | None) -> None:
        """Counted and measured bytes of the running cache."""
        self._tokens = snapshot.tokens if snapshot else 0
        if snapshot is None:
            self.running.setToolTip("")
            _set(self.running, EMPTY)
            return
        counted = snapshot.counted
        resident = words.megabytes(snapshot.resident_bytes)
        text = f"Now {resident} measured, {words.megabytes(counted.total)} counted"
        if snapshot.ratio is None and not self._idle:
            text += ". Nothing compressed yet."
        self.running.setToolTip(
            "Measured: the arrays the cache holds. Counted: what its rows take by the method's own "
            f"arithmetic. The same tokens at 16 bits would take {words.megabytes(snapshot.reference_bytes)}, "
            "counted."
        )
        _set(self.running, text)

    def set_answers(self, text: str) -> None:
        """What the controls would do to the answers; '' says nothing."""
        _set(self.answers, text)

    def predict(self, config: KVCacheConfig) -> None:
        """Fill the two figures and the bar for a configuration."""
        tokens = self._predicted_at = self._at()
        shapes = self._shapes or [_EXAMPLE]
        total, whole = predict_bytes(config, shapes, tokens), reference_bytes(shapes, tokens)
        known = bool(total.total and whole) and not self._idle
        self.bits.setText(words.bits(round(total.total * 16 / whole, 2)) if known else words.UNKNOWN)
        self.ratio.setText(f"{words.ratio(whole / total.total)} smaller" if known else words.UNKNOWN)
        self.bar.show_bytes(total if known else ByteCount(), whole if known else 0)
        of = f"{words.megabytes(total.total)} of {words.megabytes(whole)}" if known else "Unknown"
        whose = "" if self._shapes else " per slot"
        text = f"{of}{whose} at {words.count(tokens, 'token')}"
        self.basis.setText("No slot is compressed, so nothing is predicted" if self._idle else text)
        self.basis.setToolTip("Predicted" if self._shapes else f"Predicted for {_EXAMPLE_WORDS}")
        full = ""
        if known and self._context and self._context > tokens:
            at_most = words.megabytes(predict_bytes(config, shapes, self._context).total)
            full = f"{at_most} when its context of {self._context:,} is full"
        _set(self.full, full)

    def _at(self) -> int:
        least = min(PREDICTED_AT, self._context) if self._context else PREDICTED_AT
        return max(self._tokens, least)


def _set(line: QLabel, text: str) -> None:
    if text != line.text():
        line.setText(text)
    line.setVisible(bool(text))
