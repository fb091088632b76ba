"""Addresses in model text: nothing is opened but by a person who has seen the whole address."""

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMessageBox, QWidget

from studio.ui import words

OPENED = ("http", "https", "mailto")
"""Schemes that may be handed to the system; of all others the address can only be copied."""
LONGEST = 600


def ask_to_open(parent: QWidget, address: str) -> None:
    """Show an address and ask what to do with it."""
    shown = words.clean(address)
    url = QUrl(address, QUrl.ParsingMode.StrictMode)
    can_open = url.isValid() and url.scheme().lower() in OPENED
    box = QMessageBox(parent)
    box.setWindowTitle("Address in a reply")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText("The model wrote this address:" if can_open else "This address is not opened from here:")
    # The host decides where one ends up: it is named apart, in the form that can't imitate another.
    host = bytes(url.toEncoded(QUrl.ComponentFormattingOption.FullyEncoded).data()).decode("ascii", "replace")
    box.setInformativeText((host if can_open else shown)[:LONGEST])
    copy = box.addButton("Copy address", QMessageBox.ButtonRole.ActionRole)
    opened = box.addButton("Open in browser", QMessageBox.ButtonRole.AcceptRole) if can_open else None
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    if box.clickedButton() is copy:
        QGuiApplication.clipboard().setText(shown)
    elif opened is not None and box.clickedButton() is opened:
        QDesktopServices.openUrl(url)
