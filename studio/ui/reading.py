"""A window to read in: a report, two compared, or a plan, laid out as on paper."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QTextBrowser, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.errors import Notice
from studio.ui.export import ask_path
from studio.ui.theme import Scheme, scheme_now
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.report.document import Document
from veloxquant_mlx.report.render import html, markdown
from veloxquant_mlx.saving import save


class ReadingWindow(QDialog):
    """Shows a document and saves it; what else can be done with it, its owner adds as buttons."""

    closed = Signal()

    def __init__(self, parent: QWidget, document: Document, stem: str) -> None:
        """``stem`` begins the names of files that are saved."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._stem = stem
        self.page = QTextBrowser()
        self.page.setOpenLinks(False)
        self.page.setAccessibleName("Report")
        self.notice = Notice()
        self.row = QHBoxLayout()
        parts.margins(self.row, 0, 0, 0, 0, 8)
        self.save_buttons = {}
        for ending, words in (("html", "Save as page…"), ("pdf", "Save as PDF…"), ("md", "Save as text…")):
            made = parts.button(words, "", "Save what is shown here")
            made.clicked.connect(lambda _=False, ending=ending: self.save_as(ending))
            self.save_buttons[ending] = made
            self.row.addWidget(made)
        self.row.addStretch(1)
        self.close_button = parts.button("Close", "primary")
        self.close_button.clicked.connect(self.close)
        self.row.addWidget(self.close_button)
        column = QVBoxLayout(self)
        parts.margins(column, 16, 14, 16, 14, 10)
        column.addWidget(self.notice)
        column.addWidget(self.page, 1)
        column.addLayout(self.row)
        scale = min(1.4, parts.text_scale())
        self.resize(QSize(round(780 * scale), round(640 * scale)))
        self.show_document(document)

    def add_button(self, words: str, tip: str, do: Callable[[], None]) -> QWidget:
        """One more thing to do, before those for saving."""
        made = parts.button(words, "", tip)
        made.clicked.connect(lambda _=False: do())
        self.row.insertWidget(0, made)
        return made

    def show_document(self, document: Document) -> None:
        """Another document in the same window."""
        self.document = document
        self.setWindowTitle(document.title)
        self.notice.clear()
        self._lay_out()

    def save_as(self, ending: str) -> None:
        """Ask where to, then save what is shown."""
        path = ask_path(self, self._stem, ending)
        if not path:
            return
        try:
            save("The report", Path(path), self._data(ending))
        except VeloxQuantError as error:
            self.notice.show_error(str(error), "")
        else:
            self.notice.show_note(f"Saved to {path}")

    def changeEvent(self, event: QEvent) -> None:
        """The system changed its colours: the page is laid out anew."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "document"):
            self._lay_out()

    def _data(self, ending: str) -> bytes:
        if ending == "pdf":
            from studio.ui.report_pages import pdf

            return pdf(self.document)
        return (html(self.document) if ending == "html" else markdown(self.document)).encode("utf-8")

    def _lay_out(self) -> None:
        from studio.ui.report_pages import text_document

        text = text_document(self.document, light=scheme_now() == Scheme.Light)
        text.setDocumentMargin(18)
        # The page shows a text, it does not own it.
        text.setParent(self.page)
        self.page.setDocument(text)
