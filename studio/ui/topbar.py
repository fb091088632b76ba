"""The bar at the top: whose app this is, what is loaded, and the two commands that need no panel."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QToolButton, QWidget

from studio.ui import parts
from studio.ui.empty import Mark


class TopBar(QFrame):
    """Chips lead to their panels; the menu button stands in for a menu bar where the system has none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "top")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(self)
        parts.margins(row, 14, 4, 14, 4, 8)
        row.addWidget(Mark(22))
        row.addWidget(parts.label("VeloxQuant Studio", "strong"))
        row.addSpacing(4)
        self.model_chip = parts.Chip("Go to the models")
        self.cache_chip = parts.Chip("Go to the cache settings")
        self.cache_chip.hide()
        self.new_button = parts.button("New chat", "", "Start over with an empty cache (Ctrl+N)")
        self.export_button = parts.button(
            "Export report", "", "Save bytes, speeds and settings of this conversation (Ctrl+E)"
        )
        row.addWidget(self.model_chip)
        row.addWidget(self.cache_chip)
        row.addStretch(1)
        row.addWidget(self.new_button)
        row.addWidget(self.export_button)
        self.menu_button = QToolButton()
        self.menu_button.setText("☰")
        self.menu_button.setProperty("role", "quiet")
        self.menu_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu_button.setAccessibleName("Menu")
        self.menu_button.setToolTip("Menu")
        self.menu_button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        row.addWidget(self.menu_button)
        self.set_model(None)

    def set_model(self, name: str | None) -> None:
        """Name of the loaded model, None without one."""
        self.model_chip.show_text(name or "No model")
        self.model_chip.setAccessibleName(f"Model: {name or 'none'}")

    def set_cache(self, text: str) -> None:
        """Method and preset in use."""
        self.cache_chip.show_text(text)
        self.cache_chip.setAccessibleName(f"Cache: {text}")
        self.cache_chip.setVisible(bool(text))

    def set_menus(self, menus: list[list[QAction]]) -> None:
        """Groups of actions for the menu button."""
        menu = QMenu(self.menu_button)
        for index, group in enumerate(menus):
            if index:
                menu.addSeparator()
            menu.addActions(group)
        self.menu_button.setMenu(menu)
