"""The line under the message box: how the next reply is made, and how full the context is."""

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from studio.core.settings import DROP
from studio.ui import parts, words
from studio.ui.entries import CalmText
from studio.ui.form import MethodForm
from studio.ui.theme import tokens
from veloxquant_mlx.sampling import Sampling

EARLY = 0.8
"""Share of the context from which on the person is warned."""
SYSTEM_NOTES = {
    "template": "",
    "joined": "This model's template has no system role: the text begins your first message.",
    "plain": "This is a base model without a chat template: it continues the text, beginning with this.",
}
"""How a model takes a system prompt -> what the person should know about it."""


class _Bar(QWidget):
    """A thin bar; amber from EARLY on. What it says stands beside it in words."""

    def __init__(self) -> None:
        super().__init__()
        self.share = 0.0
        self.setFixedSize(QSize(72, 12))

    def show_share(self, share: float) -> None:
        """How full it is; painted again only where that is seen."""
        seen = [(round(2 * self.width() * of), of >= EARLY) for of in (self.share, share)]
        self.share = share
        if seen[0] != seen[1]:
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Groove and filling."""
        t = tokens()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        groove = QRectF(0, self.height() / 2 - 2, self.width(), 4)
        painter.setBrush(QColor(t.line))
        painter.drawRoundedRect(groove, 2, 2)
        painter.setBrush(QColor(t.warn if self.share >= EARLY else t.muted))
        if self.share > 0:
            groove.setWidth(max(4.0, groove.width() * min(1.0, self.share)))
            painter.drawRoundedRect(groove, 2, 2)
        painter.end()


class ContextGauge(QWidget):
    """Counted tokens against what the model reads, with a warning in time."""

    def __init__(self) -> None:
        super().__init__()
        self.bar = _Bar()
        self.label = parts.Elided("")
        self.label.setProperty("text-role", "small")
        row = QHBoxLayout(self)
        parts.margins(row, 0, 0, 0, 0, 8)
        row.addWidget(self.label)
        row.addWidget(self.bar)
        self.show_tokens(None, None, "stop")

    def show_tokens(self, held: int | None, context: int | None, at_limit: str) -> None:
        """Tokens in the cache (None before the first reply), the model's context, and what happens then."""
        self.setVisible(bool(held and context))
        if not held or not context:
            return
        self.bar.show_share(held / context)
        said = f"{words.tokens_of(held, context)} of context"
        full = self.bar.share >= EARLY
        if full:
            then = "the oldest messages are left out then" if at_limit == DROP else "the reply stops there"
            said = f"{held:,} of {context:,} tokens: {then}"
        if said != self.label.text():
            self.label.setText(said)
            self.label.setToolTip(f"{said}. Counted. What happens at the limit is a setting.")
            parts.restyle(self.label, text_role="warn" if full else "small")


class ReplySettings(QFrame):
    """A popup with the system prompt and the sampling of this chat; both hold from the next reply on."""

    sampling_changed = Signal(object)
    system_changed = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("surface", "popup")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Reply settings")
        self.system = CalmText()
        self.system.setAccessibleName("System prompt")
        self.system.setAccessibleDescription("What the model is told before the conversation")
        self.system.setPlaceholderText("What the model is told before the conversation")
        self.system.setFixedHeight(round(64 * parts.text_scale()))
        box = parts.surface("raised")
        inner = QVBoxLayout(box)
        parts.margins(inner, 8, 6, 8, 6, 0)
        inner.addWidget(self.system)
        self.note = parts.label("", "small", wrap=True)
        self.note.hide()
        self.form = MethodForm(Sampling)
        area = QScrollArea()
        area.setWidget(self.form)
        parts.clear_scroll(area)
        column = QVBoxLayout(self)
        parts.margins(column, 14, 12, 14, 12, 6)
        column.addWidget(parts.label("System prompt of this chat", "heading"))
        column.addWidget(box)
        column.addWidget(self.note)
        column.addSpacing(4)
        column.addWidget(parts.label("Sampling, from the next reply on", "heading"))
        column.addWidget(area, 1)
        self.setFixedSize(QSize(round(320 * parts.text_scale()), round(480 * min(1.4, parts.text_scale()))))
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(400)
        self._pause.timeout.connect(self._tell_system)
        self.system.textChanged.connect(self._pause.start)
        self.form.changed.connect(self.sampling_changed)

    def show_values(self, system: str, sampling: Sampling) -> None:
        """What holds for the chat on the page."""
        self.system.blockSignals(True)
        self.system.setPlainText(system)
        self.system.blockSignals(False)
        self.form.set_config(sampling)

    def set_manner(self, manner: str) -> None:
        """How the loaded model takes a system prompt (a key of SYSTEM_NOTES, '' without a model)."""
        note = SYSTEM_NOTES.get(manner, "")
        self.note.setText(note)
        self.note.setVisible(bool(note))

    def hideEvent(self, event: object) -> None:
        """What was written last counts too."""
        if self._pause.isActive():
            self._tell_system()
        super().hideEvent(event)  # type: ignore[arg-type]

    def _tell_system(self) -> None:
        self._pause.stop()
        self.system_changed.emit(self.system.toPlainText())


class BelowPrompt(QWidget):
    """The line itself."""

    def __init__(self) -> None:
        super().__init__()
        self.button = parts.button(
            "", "link", "System prompt and sampling: temperature, top-p and others", "Reply settings"
        )
        self.gauge = ContextGauge()
        self.settings = ReplySettings(self)
        row = QHBoxLayout(self)
        parts.margins(row, 8, 0, 8, 0, 8)
        row.addWidget(self.button)
        row.addStretch(1)
        row.addWidget(self.gauge)
        self.button.clicked.connect(self.open)
        self.show_values("", Sampling())

    def show_values(self, system: str, sampling: Sampling) -> None:
        """What holds for the chat on the page, in a few words on the button."""
        self.settings.show_values(system, sampling)
        self.show_words(system, sampling)

    def show_words(self, system: str, sampling: Sampling) -> None:
        """The button's words alone."""
        how = (
            f"temperature {words.number(sampling.temperature)}" if sampling.temperature else "likeliest token"
        )
        told = "system prompt, " if system.strip() else ""
        self.button.setText(f"Reply settings: {told}{how}")

    def open(self) -> None:
        """Show the popup above the button."""
        popup = self.settings
        corner = self.button.mapToGlobal(QPoint(0, -6))
        popup.move(corner - QPoint(0, popup.height()))
        popup.show()
        popup.system.setFocus()
