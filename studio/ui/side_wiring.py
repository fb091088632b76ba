"""Opens the side-by-side window and brings it what the engine answers."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from studio.core.talk import Talk
from studio.ui.cache_panel import CachePanel
from studio.ui.link import EngineLike
from veloxquant_mlx.config import KVCacheConfig

if TYPE_CHECKING:
    from studio.ui.side_by_side import SideBySideDialog


class SideWiring(QObject):
    """One window of it at a time."""

    def __init__(self, engine: EngineLike, cache: CachePanel, talk: Talk) -> None:
        super().__init__()
        self._engine, self._cache, self._talk = engine, cache, talk
        self.dialog: SideBySideDialog | None = None
        engine.answered.connect(lambda answer: self.dialog and self.dialog.show_answer(answer))

    def open(self) -> None:
        """Show it, with the settings there are and what was asked last."""
        if self.dialog is not None and self.dialog.isVisible():
            self.dialog.raise_()
            return
        if self.dialog is not None:
            self.dialog.deleteLater()
        from studio.ui.side_by_side import SideBySideDialog

        asked = [message.text for message in self._talk.tree.path() if message.role == "user"]
        settings = self._cache.choices()
        self.dialog = SideBySideDialog(self._cache.window(), settings, asked[-1] if asked else "")
        self.dialog.run_requested.connect(self._run)
        self.dialog.stop_requested.connect(self._engine.stop)
        self.dialog.used.connect(self._cache.choose)
        self.dialog.show()

    def _run(self, prompt: str, configs: tuple[KVCacheConfig, ...]) -> None:
        system = (("system", self._talk.system),) if self._talk.system.strip() else ()
        self._engine.side_by_side((*system, ("user", prompt)), configs, self._talk.sampling)
