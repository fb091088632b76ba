"""What the window writes and reads: reports, two of them compared, and the plan of a model's memory."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from studio.ui.export import ask_export
from veloxquant_mlx.errors import VeloxQuantError

if TYPE_CHECKING:
    from studio.ui.reading import ReadingWindow
    from studio.ui.window import MainWindow

UNPLANNED = "What this model takes is unknown: its configuration doesn't tell how its cache grows."


class Papers(QObject):
    """Belongs to one window; its commands are the window's actions."""

    def __init__(self, window: "MainWindow") -> None:
        super().__init__(window)
        self._window = window
        window.models.plan_requested.connect(self.plan)

    def export(self) -> None:
        """Ask what and where to, then write a report of this moment."""
        window = self._window
        info = window.info
        asked = ask_export(window, info.name if info else "")
        if asked:
            window.chat.notice.clear()
            taken = window.charts.take(window.conversations.said(), window.fidelity.record())
            window.engine.export(*asked, taken)

    def open_report(self) -> None:
        """Ask for a report and show it."""
        report = self._ask(self._window)
        if report is not None:
            self.show_report(report)

    def show_report(self, report: dict[str, Any]) -> "ReadingWindow":
        """A window with a report, from which another can be set beside it."""
        from studio.ui.reading import ReadingWindow
        from veloxquant_mlx.report.compare import comparison
        from veloxquant_mlx.report.content import document

        shown = ReadingWindow(self._window, document(report), f"report-{report['model']['name']}")

        def compare() -> None:
            other = self._ask(shown)
            if other is not None:
                shown.show_document(comparison(report, other))

        shown.compare_button = shown.add_button(  # type: ignore[attr-defined]
            "Compare with…", "Set another saved report beside this one", compare
        )
        shown.show()
        return shown

    def plan(self, path: str = "") -> "ReadingWindow | None":
        """What a model takes in memory and which context fits; '' is the loaded or selected one."""
        from studio.ui.reading import ReadingWindow
        from veloxquant_mlx.planning import MemoryPlan, plan_record, plan_rows
        from veloxquant_mlx.report.content import plan_document

        window = self._window
        chosen = window.models.info(path or window.models.selected_path() or "") or window.info
        machine, config = window.fits.machine, window.cache.config()
        if chosen is None or machine is None or config is None:
            window.chat.notice.show_note("Choose a model on the left first: its plan is then one click away.")
            return None
        if chosen.layout is None:
            window.chat.notice.show_note(chosen.problem or UNPLANNED)
            return None
        loaded = window.info is not None and chosen.path == window.info.path
        plan = MemoryPlan.of(chosen, machine, loaded=window.weights if loaded else None)
        rows = plan_rows(plan, window.cache.methods, config)
        told = plan_record(plan, rows, config, plan.horizon)
        shown = ReadingWindow(window, plan_document(told), f"plan-{chosen.name}")
        shown.show()
        return shown

    def _ask(self, parent: QWidget) -> dict[str, Any] | None:
        from veloxquant_mlx.report.schema import read_report

        path, _ = QFileDialog.getOpenFileName(parent, "Open a report", str(Path.home()), "Reports (*.json)")
        if not path:
            return None
        try:
            return read_report(Path(path))
        except VeloxQuantError as error:
            getattr(parent, "notice", self._window.chat.notice).show_error(str(error), "")
            return None
