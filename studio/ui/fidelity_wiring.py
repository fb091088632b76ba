"""Brings what the engine compared to the messages, the view and the status bar."""

from collections import OrderedDict
from typing import Any

from PySide6.QtCore import QObject

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
"""Messages whose comparisons are kept for as long as the app runs."""
OFF = "Comparing replies is switched off in the settings"
NOTHING = "Replies go through the uncompressed cache: there is nothing to compare"


class FidelityWiring(QObject):
    """Holds comparisons by message: a message keeps its own, whatever is said or set afterwards."""

    def __init__(
        self, engine: EngineLike, conversations: Conversations, charts: ChartsHost, status: StatusBar
    ) -> None:
        super().__init__()
        self._engine, self._conversations, self._charts, self._status = engine, conversations, charts, status
        self._known: OrderedDict[int, tuple] = OrderedDict()
        """Message -> its comparisons, part by part."""
        self._slots: tuple = ()
        self._through = self._progress = ""
        self._on = conversations.talk.settings.compare
        self.in_use: KVCacheConfig | None = None
        engine.comparing.connect(self._on_progress)
        engine.compared.connect(self._on_compared)
        conversations.left.connect(self._on_left)
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
        ids = [message.id for message in self._conversations.talk.tree.path()]
        self._conversations.chat.set_comparisons(dict(self._known))
        replies = tuple(part for id in ids for part in self._known.get(id, ()))
        why_not = "" if self._on else OFF
        if self._on and self.in_use is not None and not self.in_use.compresses:
            why_not = NOTHING
        self._charts.set_fidelity(Fidelity(replies, self._slots, self._through, self._progress, why_not))

    def record(self) -> dict[str, Any] | None:
        """What was compared of the shown conversation, for a report; None where nothing was."""
        from studio.core.taken import fidelity_record

        ids = [message.id for message in self._conversations.talk.tree.path()]
        replies = [part.fidelity for id in ids for part in self._known.get(id, ())]
        return fidelity_record(replies, self._slots)

    def _on_progress(self, step: object) -> None:
        if step is None:
            self._progress = ""
            self._status.set_state(words.state(self._engine.state))
        else:
            done, total = step.done, step.total  # type: ignore[attr-defined]
            self._progress = f"Comparing with the uncompressed cache, {done:,} of {total:,} tokens read"
            self._status.set_state(self._progress)
        self.show()

    def _on_compared(self, found: object) -> None:
        for reply in found.replies:  # type: ignore[attr-defined]
            before = [part for part in self._known.pop(reply.message, ()) if part.offset < reply.offset]
            self._known[reply.message] = (*before, reply)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        config: KVCacheConfig = found.config  # type: ignore[attr-defined]
        self._slots = found.slots  # type: ignore[attr-defined]
        self._through = setting_words(config)
        self.show()

    def _on_left(self) -> None:
        self._slots, self._through = (), ""
