"""The picker of presets: the method's own, then the person's, marked, then Custom where it is none."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox

from studio.core.presets import OwnPreset
from studio.ui.icons import own_mark
from veloxquant_mlx.config import KVCacheConfig

CUSTOM = "Custom"


class PresetBox(QComboBox):
    """``chosen`` carries the name and the configuration of what a person picked."""

    chosen = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self.setAccessibleName("Preset")
        self.setToolTip("Settings that belong together. Moving any control makes it Custom.")
        self.activated.connect(self._picked)

    def show_config(self, config: KVCacheConfig, own: Sequence[OwnPreset]) -> None:
        """Offer what there is for the configuration's method, and stand at the one it equals."""
        name = title_of(config, own)
        shown = (type(config), tuple(own), name)
        if shown == self._shown:
            return
        self._shown = shown
        with QSignalBlocker(self):
            self.clear()
            for built_in in config.presets:
                self.addItem(built_in, type(config).preset(built_in))
            if own and config.presets:
                self.insertSeparator(self.count())
            for preset in own:
                self.addItem(own_mark(), preset.name, preset.config)
                self.setItemData(self.count() - 1, "Your own preset", Qt.ItemDataRole.ToolTipRole)
                said = f"{preset.name}, your own preset"
                self.setItemData(self.count() - 1, said, Qt.ItemDataRole.AccessibleTextRole)
            if name == CUSTOM:
                self.addItem(CUSTOM)
            self.setCurrentIndex(self.findText(name))
        self.setEnabled(self.count() > 1)

    def _picked(self, index: int) -> None:
        config = self.itemData(index)
        if config is not None:
            self.chosen.emit(self.itemText(index), config)


def title_of(config: KVCacheConfig, own: Sequence[OwnPreset]) -> str:
    """Name of the preset, built in or one's own, that a configuration equals, or Custom."""
    mine = next((preset.name for preset in own if preset.config == config), CUSTOM)
    return config.preset_name() or mine
