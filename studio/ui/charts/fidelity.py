"""Fidelity: how far a compressed cache moves the answers, token by token and slot by slot."""

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QCursor, QFontMetricsF
from PySide6.QtWidgets import QToolTip

from studio.ui.charts.frame import Table
from studio.ui.charts.ink import small
from studio.ui.charts.plot import QuietPlot
from studio.ui.charts.scale import decimal_ticks, limit, tick_words
from studio.ui.charts.scene import Scene
from studio.ui.charts.slot_axis import slot_ticks
from studio.ui.charts.timeline import Timeline
from studio.ui.charts.token_stems import FLOOR, SlotErrors, TokenStems
from studio.ui.charts.tokens_view import TokensView
from studio.ui.theme import Scheme
from studio.ui.token_fidelity import Fidelity, level_of, nats, percent, tip_of

if TYPE_CHECKING:
    from veloxquant_mlx.compared import TokenFidelity

NOT_COMPARED = (
    "Each reply is compared with the uncompressed cache once it is written; the settings can end that"
)


class _Placed(NamedTuple):
    """A token compared, at its position in the conversation."""

    at: int
    token: "TokenFidelity"
    piece: str
    top: str


class FidelityView(TokensView):
    """KL over tokens, from the replies that were compared; beside it the slots' errors."""

    slot_selected = Signal(object)
    """The slot that the person picked, or None."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self.errors = QuietPlot()
        super().__init__("Fidelity", "KL, nats per token", timeline or Timeline(), beside=self.errors)
        self._stems = TokenStems(self.plot)
        self.plot.put(self._stems)
        self._bars = SlotErrors(self.errors)
        self.errors.put(self._bars)
        self.errors.setAccessibleName("Attention output error per slot")
        self.errors.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.errors.resized.connect(self.arrange)
        self.errors.hovered.connect(self._hover_slot)
        self.errors.pressed.connect(self._press_slot)
        self._scene = Scene()
        self._shown = Fidelity()
        self._tokens: list[tuple[TokenFidelity, str, str]] = []
        """Every token drawn with its text and the one that the uncompressed cache prefers."""
        self.show_fidelity(self._shown)

    @property
    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, KL in nats and levels of the tokens on the screen."""
        return self._stems.at, self._stems.kl, self._stems.levels

    @property
    def drawn_errors(self) -> np.ndarray:
        """Attention-output error of every slot, percent; NaN where nothing was measured."""
        return self._bars.percents()

    @property
    def frontier(self) -> float | None:
        """The flush frontier that is marked, tokens."""
        return self._stems.frontier

    def set_scheme(self, scheme: Scheme) -> None:
        """Take on the colours of a scheme."""
        self.errors.scheme = scheme
        self.errors.dress()
        super().set_scheme(scheme)

    def show_scene(self, scene: Scene) -> None:
        """The frontier and the beginnings of replies come from the history."""
        self._scene = scene
        self._stems.frontier = None if scene.snapshot is None else scene.snapshot.gauge("frontier")
        self._stems.marks = () if scene.history is None else scene.history.turn_marks
        self._stems.update()
        self.arrange()

    def show_fidelity(self, shown: Fidelity) -> None:
        """What was compared; of replies that overlap, the newest."""
        before, self._shown = self._shown, shown
        if before.replies != shown.replies:
            self._take(_placed(shown))
        self._bars.slots = shown.slots
        self._bars.update()
        self.errors.setVisible(any(slot.attention_error is not None for slot in shown.slots))
        self.set_empty("" if self._tokens else shown.progress or shown.why_not or NOT_COMPARED)
        self._say()
        self.arrange()

    def _take(self, placed: list[_Placed]) -> None:
        self._tokens = [(one.token, one.piece, one.top) for one in placed]
        self._stems.take(
            np.array([one.at for one in placed], np.float64),
            np.array([one.token.kl for one in placed], np.float64),
            np.array([level_of(one.token) for one in placed], np.int64),
        )

    def table(self) -> Table:
        """One row per token compared."""
        names = [
            "position, tokens", "token", "KL, nats measured", "rank uncompressed", "rank as written",
            "likelihood uncompressed", "likelihood as written", "same first choice", "uncompressed prefers",
        ]  # fmt: skip
        return names, [
            [
                at, piece, token.kl, token.rank, token.own_rank, token.likelihood, token.own_likelihood,
                token.same_top1, top,
            ]
            for at, token, piece, top in _placed(self._shown)
        ]  # fmt: skip

    def select(self, slot: int | None) -> None:
        """Show a slot as the selected one, or none."""
        if slot != self._bars.selected:
            self._bars.selected = slot
            self._bars.update()
            self._say()

    def _say(self) -> None:
        shown, kl = self._shown, self._stems.kl
        if not self._tokens:
            self.set_words("")
            self.set_detail("")
            return
        same = sum(token.same_top1 for token, _, _ in self._tokens) / len(self._tokens)
        mean = f"mean {nats(float(np.mean(kl)))}, same first choice {percent(same)}, measured"
        self.set_words(f"{shown.progress}; {mean}" if shown.progress else mean)
        slot = self._bars.selected
        errors = self._bars.percents()
        if slot is not None and slot < len(errors) and not math.isnan(errors[slot]):
            self.set_detail(f"Slot {slot}: {self._slot_words(slot)}")
        elif len(errors) and not np.isnan(errors).all():
            worst = int(np.nanargmax(errors))
            self.set_detail(
                f"Attention output through {shown.through}: {np.nanmean(errors):.2f} % off per slot on "
                f"average, {errors[worst]:.2f} % at most, in slot {worst}, measured with the newest queries"
            )
        else:
            self.set_detail("")

    def _slot_words(self, slot: int) -> str:
        value = self._bars.percents()[slot]
        if math.isnan(value):
            return "nothing measured: the slot is the model's own, or its queries can't be seen"
        return f"attention output {value:.2f} % away from the uncompressed one, measured"

    def arrange(self) -> None:
        """Fit axes and ticks to tokens, slots and size."""
        at, kl = self._stems.at, self._stems.kl
        newest = self._scene.snapshot.tokens if self._scene.snapshot is not None else 0
        self.whole = limit(max(float(newest), float(at[-1]) + 1 if len(at) else 1.0), base=2)
        high = max(0.0, math.ceil(math.log10(max(kl.max(initial=FLOOR), FLOOR)) + 0.15))
        powers = range(round(math.log10(FLOOR)), round(high) + 1)
        height = self.plot.inside()[1]
        metrics = QFontMetricsF(small(self.plot.font()))
        every = max(1, math.ceil(len(powers) * metrics.height() * 1.6 / height))
        words = [(float(power), f"{10.0**power:.{max(0, -power)}f}") for power in powers[::every]]
        self.plot.set_ticks(self.ticks(), words)
        self.plot.show_range(self.shown, (powers[0] - 0.15, high))
        errors = self._bars.percents()
        if not len(errors):
            return
        # Above the bars there is room for a line of words.
        top = limit(max(0.1, float(np.nanmax(errors, initial=0.0))) * 1.2)
        width, height = self.errors.inside()
        levels = decimal_ticks(top, max(1, min(4, int(height / (metrics.height() * 2)))))
        step = levels[1] if len(levels) > 1 else top
        self._bars.grid = levels
        self.errors.set_ticks(
            slot_ticks(len(errors), width / len(errors), metrics),
            [(level, f"{tick_words(level, step)} %") for level in levels],
        )
        self.errors.show_range((0.0, float(len(errors))), (0.0, top))

    def hover(self, at: QPointF | None) -> None:
        """What was measured of the token nearest to the pointer."""
        number = None
        if at is not None and len(self._stems.at):
            near = min(bisect_left(self._stems.at, at.x() - 0.5), len(self._stems.at) - 1)
            around = [n for n in (near - 1, near) if n >= 0]
            best = min(around, key=lambda n: abs(self._stems.at[n] + 0.5 - at.x()))
            first, last = self.shown
            reach = max(1.0, 6 * (last - first) / self.plot.inside()[0])
            if abs(self._stems.at[best] + 0.5 - at.x()) <= reach:
                number = best
        if number != self._stems.hover:
            self._stems.hover = number
            self._stems.update()
        if number is None:
            QToolTip.hideText()
        else:
            place = f"<br>at {self._stems.at[number]:,.0f} tokens of the conversation"
            QToolTip.showText(QCursor.pos(), tip_of(*self._tokens[number]) + place, self.plot)

    def _hover_slot(self, at: QPointF | None) -> None:
        slot = self._slot_at(at)
        if slot != self._bars.hover:
            self._bars.hover = slot
            self._bars.update()
        if slot is None:
            QToolTip.hideText()
        else:
            QToolTip.showText(QCursor.pos(), f"Slot {slot}: {self._slot_words(slot)}", self.errors)

    def _press_slot(self, at: QPointF) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.slot_selected.emit(self._slot_at(at))

    def _slot_at(self, at: QPointF | None) -> int | None:
        slot = -1 if at is None else math.floor(at.x())
        return slot if 0 <= slot < len(self._shown.slots) else None


def _placed(shown: Fidelity) -> list[_Placed]:
    """The tokens by position; where replies overlap, as when old messages left the context, the newest."""
    found = {
        reply.fidelity.start + n: _Placed(reply.fidelity.start + n, *values)
        for reply in shown.replies
        for n, values in enumerate(zip(reply.fidelity.tokens, reply.pieces, reply.tops, strict=True))
    }
    return [found[at] for at in sorted(found)]
