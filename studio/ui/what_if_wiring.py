"""What moved controls would do to the conversation's answers, beside what they would take."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from studio.ui.cache_panel import CachePanel
from studio.ui.link import EngineLike
from studio.ui.token_fidelity import nats
from veloxquant_mlx.config import KVCacheConfig

if TYPE_CHECKING:
    from studio.core.compared import Comparison
    from studio.core.what_if import Tried
    from studio.ui.find_dialog import FindDialog

TRYING = "Trying it on this conversation"


class WhatIfWiring(QObject):
    """Asks for the setting that the controls stand for, and says what came of it."""

    def __init__(self, engine: EngineLike, cache: CachePanel) -> None:
        super().__init__()
        self._engine, self._cache = engine, cache
        self._asked: KVCacheConfig | None = None
        self._compared: Comparison | None = None
        self.dialog: FindDialog | None = None
        cache.predicted.connect(self._ask)
        cache.menu.smallest.triggered.connect(self.open)
        engine.tried.connect(self._on_tried)
        engine.compared.connect(self._on_compared)
        engine.comparing.connect(lambda step: self.dialog and self.dialog.show_reading(step))
        engine.finding.connect(lambda found: self.dialog and self.dialog.show_finding(found))

    def forget(self) -> None:
        """Another conversation is on the page."""
        self._compared = None
        self._ask(None)

    def open(self) -> None:
        """Show the search; one window of it."""
        if self.dialog is None:
            from studio.ui.find_dialog import FindDialog

            self.dialog = FindDialog(self._cache.window())
            self.dialog.search_requested.connect(self._engine.find_smallest)
            self.dialog.chosen.connect(self._cache.choose)
        self.dialog.show()
        self.dialog.raise_()

    def _ask(self, config: KVCacheConfig | None) -> None:
        if config is None and self._asked is None:
            return
        compresses = config is not None and config.compresses
        self._asked = config if compresses else None
        self._engine.try_setting(self._asked)
        self._cache.figures.set_answers(TRYING if compresses else "")

    def _on_compared(self, found: "Comparison") -> None:
        self._compared = found

    def _on_tried(self, tried: "Tried | str") -> None:
        if isinstance(tried, str):
            if self._asked is not None:
                self._cache.figures.set_answers(tried)
        elif tried.config == self._asked and tried.error is not None:
            self._cache.figures.set_answers(self._words(tried))

    def _words(self, tried: "Tried") -> str:
        error = tried.error or 0.0
        count = len(tried.errors)
        about = "about " if tried.measured < count else ""
        said, how = f"Attention output {about}{error:.1%} off", _how(tried)
        compared = self._compared
        if compared is None:
            return f"{said}, {how}"
        now = {s.slot: s.attention_error for s in compared.slots if s.attention_error is not None}
        same = [now[slot] for slot, _ in tried.errors if slot in now]
        if len(same) < count or not sum(same):
            return f"{said}, {how}"
        before = sum(same) / count
        tokens = [token.kl for reply in compared.replies for token in reply.fidelity.tokens]
        mean = sum(tokens) / len(tokens)
        # KL grows about with the square of the error.
        predicted = nats(mean * (error / before) ** 2)
        near = "" if predicted.startswith("below") else "about "
        kl = f"KL {near}{predicted} predicted, {nats(mean)} measured now"
        return f"{said} ({before:.1%} now), {how}. {kl}"


def _how(tried: "Tried") -> str:
    """On what a figure stands."""
    count, of = len(tried.errors), f"{tried.slots} slots"
    if not tried.measured:
        on = "one head a slot" if count == tried.slots else f"one head of each of {count} of {of}"
        return f"estimated from {on}"
    if tried.measured == count:
        return f"measured on {of}" if count == tried.slots else f"measured on {count} of {of}"
    return f"measured on {tried.measured} of {of}, estimated on the rest"
