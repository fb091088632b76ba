"""The window's actions: one list for keys, the system's menu bar and the menu button."""

import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence

if TYPE_CHECKING:
    from studio.ui.window import MainWindow


class Actions:
    """Makes the actions of a window and keeps them enabled as its state allows."""

    def __init__(self, window: "MainWindow") -> None:
        self._window = window
        models = window.models.open_button
        self.new = self._make("New chat", "Ctrl+N", window.new_chat)
        self.search = self._make("Search all chats", "Ctrl+F", window.chats.search.setFocus)
        self.open_folder = self._make("Open model folder…", "Ctrl+O", models.ask_folder)
        self.open_file = self._make("Open GGUF file…", "Ctrl+Shift+O", models.ask_file)
        self.download = self._make("Download a model…", "Ctrl+D", models.ask_download)
        self.attach = self._make("Attach text files…", "Ctrl+Shift+A", window.chat.prompt.ask_file)
        self.export = self._make("Export report…", "Ctrl+E", window.papers.export)
        self.open_report = self._make("Open report…", "Ctrl+Shift+L", window.papers.open_report)
        self.plan = self._make("Memory plan…", "Ctrl+L", window.papers.plan)
        self.export_chat = self._make("Export chat…", "Ctrl+Shift+E", window.export_chat)
        self.regenerate = self._make("Regenerate reply", "Ctrl+R", window.regenerate)
        self.go_on = self._make("Continue reply", "Ctrl+Shift+R", window.conversations.go_on)
        self.reply_settings = self._make("Reply settings", "Ctrl+T", window.below_prompt.open)
        self.side = self._make("Side by side…", "Ctrl+B", window.side.open)
        self.stop = self._make("Stop", "Esc", window.stop)
        self.settings = self._make("Settings…", "Ctrl+,", window.settings.open)
        self.settings.setMenuRole(QAction.MenuRole.PreferencesRole)
        self.keyboard = self._make("Keyboard shortcuts", "F1", self._keyboard)
        self.log = self._make("Show log", None, self._log)
        self.quit = self._make("Quit", QKeySequence.StandardKey.Quit, window.close)
        self.quit.setMenuRole(QAction.MenuRole.QuitRole)
        self.about = self._make("About VeloxQuant Studio", None, self._about)
        self.about.setMenuRole(QAction.MenuRole.AboutRole)
        if sys.platform == "darwin":
            bar = window.menuBar()
            for title, group in zip(("File", "Reply", "Help"), self.groups(), strict=True):
                bar.addMenu(title).addActions(group)

    def groups(self) -> list[list[QAction]]:
        """File, reply, application."""
        return [
            [
                self.new, self.search, self.open_folder, self.open_file, self.download, self.plan,
                self.export, self.open_report, self.export_chat,
            ],
            [self.regenerate, self.go_on, self.side, self.stop, self.attach, self.reply_settings],
            [self.settings, self.keyboard, self.log, self.about, self.quit],
        ]  # fmt: skip

    def update(self, *, can_regenerate: bool, replying: bool, has_model: bool) -> None:
        """Enable what can be done now. Stop stays on: it also cancels loading."""
        self.regenerate.setEnabled(can_regenerate and not replying)
        self.go_on.setEnabled(can_regenerate and self._window.chat.can_go_on())
        self.export_chat.setEnabled(not self._window.chat.is_empty())
        self.export.setEnabled(has_model)
        self.side.setEnabled(has_model and not replying)

    def _make(self, text: str, key: object, do: object) -> QAction:
        action = QAction(text, self._window)
        if key is not None:
            action.setShortcut(QKeySequence(key))  # type: ignore[call-overload]
        action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        action.triggered.connect(lambda _checked=False: do())  # type: ignore[operator]
        self._window.addAction(action)
        return action

    def _keyboard(self) -> None:
        # Here and below: start-up waits for every import, and few dialogs are ever opened.
        from studio.ui.dialogs import KeyboardSheet

        KeyboardSheet(self._window, [action for group in self.groups() for action in group]).exec()

    def _about(self) -> None:
        from studio.ui.about import AboutDialog

        AboutDialog(self._window).exec()

    def _log(self) -> None:
        from studio.ui.dialogs import LogWindow

        LogWindow(self._window).show()
