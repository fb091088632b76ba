"""The picker of presets: the method's own, then the person's, marked, then Custom where it is none."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox, QStylePainter

from studio.core.presets import OwnPreset
from studio.ui.icons import own_mark
from veloxquant_mlx.config import KVCacheConfig

CUSTOM = "Custom"
_TIP = "settings that belong together; moving any control makes them Custom"


class PresetBox(QComboBox):
    """``chosen`` carries the name and the configuration of what a person picked."""

    chosen = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self.setAccessibleName("Preset")
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
        self.setToolTip(f"{name}: {_TIP}")
        self.setEnabled(self.count() > 1)

    def showPopup(self) -> None:
        """The list is as wide as its names, however narrow the box is."""
        view = self.view()
        view.setMinimumWidth(view.sizeHintForColumn(0) + 2 * view.frameWidth() + 24)
        super().showPopup()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A name that is too long ends in dots; Qt would cut it."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        part = QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self).width()
        if not self.itemIcon(self.currentIndex()).isNull():
            room -= self.iconSize().width() + 8
        end = Qt.TextElideMode.ElideRight
        option.currentText = self.fontMetrics().elidedText(self.currentText(), end, room)
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()

    def _picked(self, index: int) -> None:
        config = self.itemData(index)
        if config is not None:
            self.chosen.emit(self.itemText(index), config)


def title_of(config: KVCacheConfig, own: Sequence[OwnPreset]) -> str:
    """Name of the preset, built in or one's own, that a configuration equals, or Custom."""
    mine = next((preset.name for preset in own if preset.config == config), CUSTOM)
    return config.preset_name() or mine
