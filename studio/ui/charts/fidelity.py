"""Fidelity: how far a compressed cache moves the answers."""

from PySide6.QtWidgets import QWidget

from studio.ui.charts.frame import ChartFrame, Table
from studio.ui.charts.scene import Scene

NOT_COMPARED = (
    "Not compared yet: this view will tell, token by token, how far the cache moved the model's answers; "
    "today “veloxquant measure” tells it on the command line."
)


class FidelityView(ChartFrame):
    """A sentence while there is nothing to compare with."""

    def __init__(self) -> None:
        super().__init__("Fidelity", "", QWidget())
        self.set_empty(NOT_COMPARED)

    def show_scene(self, scene: Scene) -> None:
        """Nothing of a scene tells about fidelity."""

    def table(self) -> Table:
        """No figures."""
        return [], []
