"""Brings what the engine compared to the messages, the view and the status bar."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject

from studio.core.compared import Comparison, KeptComparison
from studio.core.settings import Settings
from studio.ui import words
from studio.ui.charts_host import ChartsHost
from studio.ui.conversations import Conversations
from studio.ui.link import EngineLike
from studio.ui.setting_words import setting_words
from studio.ui.statusbar import StatusBar
from studio.ui.token_fidelity import Fidelity
from veloxquant_mlx.config import KVCacheConfig

MOST = 200
"""Messages whose comparisons are held in memory."""
OFF = "Comparing replies is switched off; the switch is in the settings"
NOTHING = "Replies go through the uncompressed cache: there is nothing to compare"


class FidelityWiring(QObject):
    """Holds comparisons by message: a message keeps its own, whatever is said or set afterwards."""

    def __init__(
        self, engine: EngineLike, conversations: Conversations, charts: ChartsHost, status: StatusBar
    ) -> None:
        super().__init__()
        self._engine, self._conversations, self._charts, self._status = engine, conversations, charts, status
        self._known: OrderedDict[int, KeptComparison] = OrderedDict()
        """By message."""
        self._asked: set[int] = set()
        """Messages that the disk was asked for."""
        self._progress = ""
        self._on = conversations.talk.settings.compare
        self.in_use: KVCacheConfig | None = None
        engine.comparing.connect(self._on_progress)
        engine.compared.connect(self._on_compared)
        engine.methods_ready.connect(lambda _: self.show())
        conversations.shown.connect(self.show)
        conversations.changed.connect(self.show)

    def start(self) -> None:
        """Tell the engine what the settings say."""
        self._engine.compare(self._on)

    def use(self, settings: Settings) -> None:
        """Compare from now on, or don't."""
        if settings.compare != self._on:
            self._on = settings.compare
            self._engine.compare(self._on)
            self.show()

    def set_in_use(self, config: KVCacheConfig) -> None:
        """The setting of the cache from now on."""
        self.in_use = config
        self.show()

    def show(self) -> None:
        """Everything known of the shown conversation."""
        shown = self._shown()
        self._conversations.chat.set_comparisons({id: kept.parts for id, kept in self._known.items()})
        replies = tuple(part for kept in shown for part in kept.parts)
        measured = next((kept for kept in reversed(shown) if kept.slots), KeptComparison(()))
        why_not = "" if self._on else OFF
        if self._on and self.in_use is not None and not self.in_use.compresses:
            why_not = NOTHING
        through = "" if measured.config is None else setting_words(measured.config)
        self._charts.set_fidelity(Fidelity(replies, measured.slots, through, self._progress, why_not))

    def record(self) -> dict[str, Any] | None:
        """What was compared of the shown conversation, for a report; None where nothing was."""
        from studio.core.taken import fidelity_record

        return fidelity_record(self._shown())

    def _shown(self) -> list[KeptComparison]:
        """What is known of the messages shown, first to last; it is read where only the disk has it."""
        talk = self._conversations.talk
        ids = [message.id for message in talk.tree.path() if message.role == "assistant"][-MOST:]
        unknown = [id for id in ids if id not in self._asked]
        # Until the engine knows the methods nobody can say what a setting is called.
        if unknown and self._engine.state != "starting":
            self._asked.update(unknown)
            self._hold(talk.comparisons(unknown))
        return [self._known[id] for id in ids if id in self._known]

    def _hold(self, found: Mapping[int, KeptComparison]) -> None:
        for id, kept in found.items():
            self._known[id] = kept
            self._known.move_to_end(id)
        while len(self._known) > MOST:
            self._asked.discard(self._known.popitem(last=False)[0])

    def _on_progress(self, step: object) -> None:
        if step is None:
            self._progress = ""
            self._status.set_state(words.state(self._engine.state))
        else:
            done, total = step.done, step.total  # type: ignore[attr-defined]
            self._progress = f"Comparing with the uncompressed cache, {done:,} of {total:,} tokens read"
            self._status.set_state(self._progress)
        self.show()

    def _on_compared(self, found: Comparison) -> None:
        for reply in found.replies:
            known = self._known.get(reply.message)
            before = [part for part in known.parts if part.offset < reply.offset] if known else []
            kept = KeptComparison((*before, reply), found.config, found.slots)
            self._asked.add(reply.message)
            self._hold({reply.message: kept})
            self._conversations.talk.keep_comparison(reply.message, kept)
        self.show()
