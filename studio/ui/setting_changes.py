"""Changes of settings and of presets that can be taken back."""

from collections.abc import Callable

from PySide6.QtGui import QUndoCommand

from studio.core.presets import OwnPreset, PresetStore
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError

Say = Callable[[str], None]


class SettingChange(QUndoCommand):
    """From one configuration to another; ``go_to`` shows and applies one."""

    def __init__(
        self, before: KVCacheConfig, after: KVCacheConfig, go_to: Callable[[KVCacheConfig], None]
    ) -> None:
        super().__init__("change of settings")
        self._before, self._after, self._go_to = before, after, go_to
        self._done = True

    def redo(self) -> None:
        """Nothing when it is pushed: the hand has done it already."""
        if not self._done:
            self._go_to(self._after)
        self._done = True

    def undo(self) -> None:
        """Back."""
        self._go_to(self._before)
        self._done = False


class PresetDeletion(QUndoCommand):
    """Forgets a preset of one's own; ``changed`` is called each time, ``say`` has what went wrong."""

    def __init__(self, store: PresetStore, preset: OwnPreset, changed: Callable[[], None], say: Say) -> None:
        super().__init__(f"deletion of {preset.name}")
        self._store, self._preset, self._changed, self._say = store, preset, changed, say

    def redo(self) -> None:
        """Forget it."""
        try:
            self._store.remove(self._preset)
        except VeloxQuantError as error:
            self._say(str(error))
            self.setObsolete(True)
        self._changed()

    def undo(self) -> None:
        """Keep it again, under its name or the nearest free one."""
        preset = self._preset
        try:
            name = self._store.free_name(preset.name, preset.config)
            self._preset = self._store.add(name, preset.config, path=preset.path)
        except VeloxQuantError as error:
            self._say(str(error))
        self._changed()
