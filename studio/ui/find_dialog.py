"""Asks for a KL and shows the search for the smallest setting under it, to its Pareto chart."""

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from studio.ui import parts, words
from studio.ui.entries import CalmDoubleSpin
from studio.ui.theme import scheme_now

if TYPE_CHECKING:
    from studio.core.what_if import Finding
    from veloxquant_mlx.fidelity import ReplayStep

LEAD = (
    "Presets and bit widths are tried on the keys and values of this conversation; the most promising are "
    "then run beside the uncompressed cache. Click a point to use its setting."
)
KEY = "KL, nats per token, over predicted bytes. Filled: measured by a run. Ring: predicted from the error."


class FindDialog(QDialog):
    """Stays beside the window while the search runs; a reply only holds it up."""

    search_requested = Signal(object)
    """KL in nats per token, or None to end the search."""
    chosen = Signal(object)
    """The configuration of a point."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        from studio.ui.charts.pareto import ParetoChart

        self.setWindowTitle("Find the smallest setting")
        self.limit = CalmDoubleSpin()
        self.limit.setDecimals(4)
        self.limit.setRange(0.0001, 5.0)
        self.limit.setSingleStep(0.01)
        self.limit.setValue(0.05)
        self.limit.setButtonSymbols(CalmDoubleSpin.ButtonSymbols.NoButtons)
        self.limit.setProperty("framed", True)
        self.limit.setAccessibleName("KL at most, nats per token")
        self.button = parts.button("Search", "primary")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.hide()
        self.words = parts.label("", "small", wrap=True)
        self.verdict = parts.label("", "strong", wrap=True)
        self.chart = ParetoChart()
        self.chart.scheme = scheme_now()
        self.chart.dress()
        policy = self.chart.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.chart.setSizePolicy(policy)
        self.key = parts.label(KEY, "small", wrap=True)
        self.detail = parts.label("", "small", wrap=True)
        self.detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._running = False
        self._compose()
        self._draw(None)
        self.button.clicked.connect(self._clicked)
        self.chart.chosen.connect(self.chosen)
        self.chart.pointed.connect(self.detail.setText)

    def _compose(self) -> None:
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 8)
        row.addWidget(parts.label("KL at most"))
        row.addWidget(self.limit)
        row.addWidget(parts.label("nats per token", "small"))
        row.addStretch(1)
        row.addWidget(self.button)
        column = QVBoxLayout(self)
        parts.margins(column, 20, 16, 20, 14, 8)
        column.addWidget(parts.label(LEAD, "lead", wrap=True))
        column.addLayout(row)
        column.addWidget(self.bar)
        column.addWidget(self.words)
        column.addWidget(self.chart, 1)
        column.addWidget(self.key)
        column.addWidget(self.verdict)
        column.addWidget(self.detail)
        scale = min(1.4, parts.text_scale())
        self.resize(round(640 * scale), round(560 * scale))

    @property
    def running(self) -> bool:
        """Whether a search was asked for and has not ended."""
        return self._running

    def show_reading(self, step: "ReplayStep | None") -> None:
        """Before the first candidate the conversation's rows may have to be captured."""
        if self._running and step is not None:
            self.words.setText(f"Reading the conversation, {step.done:,} of {step.total:,} tokens")

    def show_finding(self, finding: "Finding | str | None") -> None:
        """How far it is; None when it ended before its end, a sentence when it could not begin."""
        if finding is None or isinstance(finding, str):
            if self._running:
                self.words.setText(finding or "The search was ended; the points so far stay.")
            self._run(False)
            return
        self.bar.setRange(0, finding.total)
        self.bar.setValue(finding.done)
        tokens = words.count(finding.tokens, "token")
        reference = words.megabytes(finding.reference)
        self.words.setText(f"{finding.words}. {tokens}, {reference} at 16 bits, counted.")
        self._draw(finding)
        if finding.complete:
            from studio.ui.charts.pareto import told

            self.verdict.setText(told(finding.best) if finding.best else finding.words + ".")
            self._run(False)

    def _clicked(self) -> None:
        if self._running:
            self.search_requested.emit(None)
        else:
            self._draw(None)
            self.verdict.setText("")
            self.words.setText("Getting ready")
            self._run(True)
            self.search_requested.emit(self.limit.value())

    def _draw(self, finding: "Finding | None") -> None:
        """The chart and its key, once there are points."""
        for part in (self.chart, self.key):
            part.setVisible(finding is not None and bool(finding.points))
        self.chart.show_finding(finding)

    def _run(self, running: bool) -> None:
        self._running = running
        self.bar.setVisible(running)
        self.button.setText("Cancel" if running else "Search")
        self.limit.setEnabled(not running)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Nobody would see how a search ends."""
        if self._running:
            self.search_requested.emit(None)
        super().closeEvent(event)

    def changeEvent(self, event: Any) -> None:
        """Another scheme, other colours."""
        super().changeEvent(event)
        if hasattr(self, "chart") and event.type() == event.Type.PaletteChange:
            self.chart.scheme = scheme_now()
            self.chart.dress()
