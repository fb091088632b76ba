"""The notice in place."""

from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from studio.ui.errors import Notice


def test_it_shows_copies_and_goes(qtbot: QtBot) -> None:
    notice = Notice()
    qtbot.addWidget(notice)
    assert notice.sentence == ""
    notice.show_error("The disk is full; free 100 MB and try again.", "OSError 28")
    assert notice.sentence == "The disk is full; free 100 MB and try again."
    notice._copy.click()
    assert QGuiApplication.clipboard().text() == f"{notice.sentence}\n\nOSError 28"
    with qtbot.waitSignal(notice.dismissed):
        notice._close.click()
    assert notice.sentence == ""


def test_without_details_there_is_nothing_to_copy(qtbot: QtBot) -> None:
    notice = Notice(wide=True)
    qtbot.addWidget(notice)
    notice.show()
    notice.show_note("Report saved to <b>here</b>")
    assert not notice._copy.isVisible()
    assert notice.sentence == "Report saved to <b>here</b>"
