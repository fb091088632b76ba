"""A question before something is lost or may go wrong, asked once."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget


def confirm(parent: QWidget, question: str, consequence: str, go: str) -> bool:
    """Ask whether to go on; ``go`` names the button that does. Escape and the preselected button do not."""
    box = QMessageBox(parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setWindowTitle("VeloxQuant Studio")
    box.setText(question)
    box.setInformativeText(consequence)
    accepted = box.addButton(go, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    return box.clickedButton() is accepted
