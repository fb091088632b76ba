"""The start after a crash offers its log."""

from pytestqt.qtbot import QtBot

from studio.core.crashes import LAST
from studio.ui.crash_offer import CRASHED, ENDED, offer_crash_log
from studio.ui.dialogs import LogWindow
from studio.ui.window import MainWindow
from veloxquant_mlx.paths import log_dir


def leave(text: str) -> None:
    log_dir().mkdir(parents=True, exist_ok=True)
    (log_dir() / "running-1.log").write_text(text)


def test_nothing_is_said_where_nothing_was(window: MainWindow) -> None:
    offer_crash_log(window, window.chat.notice)
    assert window.chat.notice.sentence == ""


def test_a_crash_is_said_and_its_log_shown(qtbot: QtBot, window: MainWindow) -> None:
    leave("Version 1\n" + "-" * 40 + "\nFatal Python error: Segmentation fault\n")
    offer_crash_log(window, window.chat.notice)
    assert window.chat.notice.sentence == CRASHED
    window.chat.notice._more.click()
    shown = window.findChild(LogWindow)
    assert shown is not None and shown.isVisible()
    qtbot.addWidget(shown)
    assert "Segmentation fault" in shown.text.toPlainText()
    assert shown.windowTitle() == "Log of the last crash"
    assert (log_dir() / LAST).is_file()


def test_an_end_from_outside_is_said_as_such(window: MainWindow) -> None:
    leave("Version 1\n" + "-" * 40 + "\n")
    offer_crash_log(window, window.chat.notice)
    assert window.chat.notice.sentence == ENDED


def test_a_later_notice_has_no_such_link(window: MainWindow) -> None:
    leave("")
    offer_crash_log(window, window.chat.notice)
    window.chat.notice.show_note("Report saved")
    assert window.chat.notice._more.isHidden()
