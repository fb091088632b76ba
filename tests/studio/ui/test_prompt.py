"""The box a message is written in."""

from PySide6.QtCore import QCoreApplication, QEvent, QObject
from pytestqt.qtbot import QtBot

from studio.ui.prompt import PromptBox


class _Paints(QObject):
    """Counts the paint events of a widget."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.Paint
        return False


def settle() -> None:
    """Handle events until none is left that another one posted."""
    for _ in range(10):
        QCoreApplication.sendPostedEvents()
        QCoreApplication.processEvents()


def test_the_reason_why_nothing_can_be_sent_is_painted_anew_when_it_changes(qtbot: QtBot) -> None:
    box = PromptBox()
    qtbot.addWidget(box)
    paints = _Paints()
    box.editor.viewport().installEventFilter(paints)
    with qtbot.waitExposed(box):
        box.show()
    settle()
    before = paints.count
    box.set_ready("")
    settle()
    assert paints.count > before
