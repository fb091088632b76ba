"""Opens the settings, and tells everybody what the person changed there."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from studio.core.settings import Settings
from studio.core.talk import Talk
from studio.ui.fidelity_wiring import FidelityWiring
from studio.ui.fits import Fits
from studio.ui.link import EngineLike
from studio.ui.theme import apply_appearance


class SettingsWiring(QObject):
    """Settings hold as soon as they are changed."""

    used = Signal()
    """Others than before: what they are said by may have to be said anew."""

    def __init__(
        self, window: QWidget, engine: EngineLike, talk: Talk, fits: Fits, fidelity: FidelityWiring
    ) -> None:
        super().__init__(window)
        self._window, self._engine, self._talk = window, engine, talk
        self._fits, self._fidelity = fits, fidelity
        self._cache_bytes: int | None = None
        """What saved caches take on disk, measured."""
        engine.caches_told.connect(self._on_caches)

    def start(self) -> None:
        """Tell the engine what concerns it."""
        self._keep_caches()
        self._limit_memory()

    def open(self) -> None:
        """Show the settings until they are closed."""
        from studio.ui.dialogs import SettingsDialog

        facts = [f"Chats and settings are kept in {self._talk.store.path}."]
        dialog = SettingsDialog(self._window, self._talk.settings, facts)
        dialog.changed.connect(self.use)
        dialog.caches.show_bytes(self._cache_bytes)
        dialog.caches.remove_requested.connect(self._engine.remove_caches)
        self._engine.caches_told.connect(dialog.caches.show_bytes)
        dialog.exec()
        # Not while a slider is dragged through 0.
        self._keep_caches()

    def use(self, settings: Settings) -> None:
        """Let settings hold from now on."""
        before = self._talk.settings
        self._talk.set_settings(settings)
        self._fidelity.use(settings)
        if settings.appearance != before.appearance:
            apply_appearance(settings.appearance)
        if (settings.mlx_cache, settings.mlx_wired) != (before.mlx_cache, before.mlx_wired):
            self._limit_memory()
        if settings.memory_limit != before.memory_limit:
            self._fits.refresh()
        self.used.emit()

    def _keep_caches(self) -> None:
        self._engine.keep_caches(self._talk.keeps, round(self._talk.settings.cache_limit * 1e9))

    def _limit_memory(self) -> None:
        settings = self._talk.settings
        self._engine.limit_memory(round(settings.mlx_cache * 1e9), round(settings.mlx_wired * 1e9))

    def _on_caches(self, taken: int) -> None:
        self._cache_bytes = taken
