"""Token map: what every slot holds every token as, and the frontier between codes and exact rows."""

import math
from html import escape

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QCursor, QFontMetricsF
from PySide6.QtWidgets import QToolTip

from studio.ui.charts.frame import Table
from studio.ui.charts.ink import small
from studio.ui.charts.runs import RUNS, Rows, TokenRuns, runs_of
from studio.ui.charts.scale import limit
from studio.ui.charts.scene import Scene
from studio.ui.charts.slot_axis import slot_ticks, walk
from studio.ui.charts.stretch import SlotStretch
from studio.ui.charts.timeline import Timeline
from studio.ui.charts.tokens_view import TokensView
from veloxquant_mlx.telemetry import KIND_LABELS

PROMISE = "Every token will stand here as an exact row or as codes, with the flush frontier between them"
_AROUND = 6
"""Tokens told on each side of the one under the pointer."""
_MEANING = {
    "sinks": "a sink row: kept exact for good",
    "codes": "codes: behind the frontier, a few bits per value",
    "exact": "an exact row: 16 bits until the frontier passes it",
    "foreign": "in a slot that stays as the model made it",
}


class TokenMap(TokensView):
    """Slots from top to bottom, tokens from left to right, each run in the colour of its kind."""

    slot_selected = Signal(object)
    """The slot that the person picked, or None."""

    def __init__(self, timeline: Timeline | None = None, slots: SlotStretch | None = None) -> None:
        self.slots = slots or SlotStretch()
        super().__init__("Token map", "slots × tokens", timeline or Timeline())
        self._rows = Rows(self.plot)
        self.plot.put(self._rows)
        self.plot.getViewBox().invertY(True)
        self.plot.words_above = True
        self._scene = Scene()
        self.set_empty(PROMISE)

    @property
    def drawn(self) -> TokenRuns | None:
        """What is on the screen, tokens."""
        return self._rows.runs

    def show_scene(self, scene: Scene) -> None:
        """Show the slots at a moment."""
        self._scene = scene
        self.set_empty(scene.nothing(PROMISE))
        shown = None if self.empty else scene.snapshot
        self._rows.runs = None if shown is None else runs_of(shown)
        self._rows.update()
        frontier = None if shown is None else shown.gauge("frontier")
        if shown is None:
            self.set_words("")
        elif frontier:
            self.set_words(f"{shown.tokens - int(frontier):,} newest exact")
        else:
            self.set_words("" if shown.counted.codes else scene.waiting)
        self.arrange()

    def table(self) -> Table:
        """Every slot's runs."""
        runs, layers = self._rows.runs, self._scene.layers
        rows: list[list[object]] = []
        for slot, layer in enumerate(layers):
            for kind in ("foreign", *RUNS):
                if runs is not None:
                    start, end = (int(edge[slot]) for edge in runs.bounds(kind))
                    if end > start:
                        rows.append([layer.slot, KIND_LABELS[kind], start, end])
        return ["slot", "kind", "first token", "end, not included"], rows

    def arrange(self) -> None:
        """Fit axes and ticks."""
        runs = self._rows.runs
        if runs is None:
            return
        count = len(runs.sinks)
        # In steps, so that the rows stand still and only what is new moves.
        self.whole = limit(1.01 * (self.timeline.newest or runs.tokens), base=2)
        metrics = QFontMetricsF(small(self.plot.font()))
        # Numbers below one another need less room than those side by side.
        first, last = self.slots.shown or (0.0, float(count))
        pitch = self.plot.inside()[1] / (last - first) * metrics.horizontalAdvance("0000") / metrics.height()
        self.plot.set_ticks(self.ticks(), slot_ticks(count, pitch, metrics, self.slots.shown))
        self.plot.show_range(self.shown, (first, last))

    def drag(self, tokens: float, up: float) -> None:
        """Move both ways."""
        super().drag(tokens, up)
        self.slots.move(up)

    def zoom_up(self, factor: float, at: float = 0.0) -> None:
        """See ``factor`` times as many slots."""
        self.slots.zoom(factor, at)

    def show_all(self) -> None:
        """Show all tokens and all slots."""
        super().show_all()
        self.slots.show_all()

    def hover(self, at: QPointF | None) -> None:
        """The token under the pointer: its text among its neighbours, and what the slot holds it as."""
        place = self._place(at)
        if place != self._rows.hover:
            self._rows.hover = place
            self._rows.update()
        if place is None or self._rows.runs is None:
            QToolTip.hideText()
            return
        QToolTip.showText(QCursor.pos(), self.told(*place), self.plot)

    def told(self, slot: int, token: int) -> str:
        """What the tooltip says of a token in a slot, as rich text. Texts of tokens are escaped."""
        runs = self._rows.runs
        kind = None if runs is None else runs.kind_at(slot, token)
        layer = self._scene.layers[slot]
        lines = [f'<span style="font-weight:600">Token {token + 1:,}</span>{self._text(token)}']
        if kind is not None:
            colour = self.plot.ink.colours[kind].name()
            lines.append(f'<span style="color:{colour}">■</span> Slot {layer.slot}: {_MEANING[kind]}')
        if kind == "foreign":
            lines.append(escape(f"{self._scene.reason(layer)}; {layer.counted.foreign:,} bytes, measured"))
        return "<br>".join(lines)

    def _text(self, token: int) -> str:
        history = self._scene.history
        if history is None or (piece := history.piece(token)) is None:
            return "<br>Its text is not known"
        before = "".join(history.piece(at) or "" for at in range(max(0, token - _AROUND), token))
        after = "".join(history.piece(at) or "" for at in range(token + 1, token + 1 + _AROUND))
        style = f"font-weight:600; background:{self.plot.ink.tokens.accent_soft}"
        return f'<br>…{_visible(before)}<span style="{style}">{_visible(piece)}</span>{_visible(after)}…'

    def _place(self, at: QPointF | None) -> tuple[int, int] | None:
        runs = self._rows.runs
        if at is None or runs is None:
            return None
        slot, token = math.floor(at.y()), math.floor(at.x())
        return (slot, token) if 0 <= slot < len(runs.sinks) and 0 <= token < runs.tokens else None

    def press(self, at: QPointF) -> None:
        """A click picks the slot under it."""
        super().press(at)
        slot = math.floor(at.y())
        count = 0 if self._rows.runs is None else len(self._rows.runs.sinks)
        self.slot_selected.emit(slot if 0 <= slot < count else None)

    def select(self, slot: int | None) -> None:
        """Show a slot as the selected one, or none."""
        if slot != self._rows.selected:
            self._rows.selected = slot
            self._rows.update()

    def on_key(self, key: Qt.Key) -> bool:
        """Up and down walk over the slots; the others are those of all views of tokens."""
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            count = 0 if self._rows.runs is None else len(self._rows.runs.sinks)
            slot = walk(key, self._rows.selected, count, Qt.Key.Key_Up, Qt.Key.Key_Down)
            self.slot_selected.emit(slot)
            return True
        return super().on_key(key)


def _visible(text: str) -> str:
    """Text of tokens as rich text that shows it and nothing else: escaped, line ends as a sign."""
    signs = {"\n": "↵", "\r": "", "\t": "⇥"}
    shown = "".join(signs.get(c, c if c.isprintable() else "·") for c in text)
    return escape(shown[:120]).replace(" ", "&nbsp;")
