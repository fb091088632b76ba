"""Asks before a prompt is read that memory seems too small for."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from studio.core.request import Request
from studio.ui.conversations import Conversations
from studio.ui.link import EngineLike
from veloxquant_mlx.config import KVCacheConfig

GOING_ON = (
    "Going on may slow the whole machine down, or end the app. How much memory may be used is a setting."
)


class Manners(QObject):
    """The person may go on, which holds for the chat, use a setting that fits, or leave it."""

    def __init__(
        self, window: QWidget, engine: EngineLike, conversations: Conversations,
        use: Callable[[KVCacheConfig], None], leave: Callable[[], None],
    ) -> None:  # fmt: skip
        """``use`` puts a setting to use; ``leave`` takes the message back into the box."""
        super().__init__(window)
        self._window, self._engine, self._conversations = window, engine, conversations
        self._use, self._leave = use, leave
        engine.over_limit.connect(self._ask)

    def _ask(self, request: Request, excess: object) -> None:
        found = excess
        choice = ""
        # The person may have gone to another chat in the meantime.
        if request.message == self._conversations.talk.tree.leaf:
            choice = self.choose(found.sentence, found.instead, found.smaller_name)  # type: ignore[attr-defined]
        if choice == "go on":
            self._conversations.unlimited.add(request.chat)
            self._engine.answer(replace(request, limit=0))
            return
        self._leave()
        if choice == "use":
            self._use(found.smaller)  # type: ignore[attr-defined]
            self._conversations.chat.notice.show_note(
                f"The cache is set to {found.smaller_name}. Send the message again."  # type: ignore[attr-defined]
            )

    def choose(self, sentence: str, instead: str, smaller: str) -> str:
        """``go on``, ``use`` the smaller setting, or ''."""
        box = QMessageBox(self._window)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setWindowTitle("Not enough memory")
        box.setText(sentence)
        box.setInformativeText(f"{instead}\n\n{GOING_ON}")
        go = box.addButton("Go on anyway", QMessageBox.ButtonRole.DestructiveRole)
        use = box.addButton(f"Use {smaller}", QMessageBox.ButtonRole.AcceptRole) if smaller else None
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        box.exec()
        if box.clickedButton() is go:
            return "go on"
        return "use" if use is not None and box.clickedButton() is use else ""
