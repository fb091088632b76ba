"""The list of models: the starter's offer, downloads on their way, what was used last, then all others."""

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QListWidgetItem, QMenu

from studio.core.fit import Fit
from studio.ui import words
from studio.ui.downloads import Download
from studio.ui.model_row import ROW, RowDelegate, RowText, row_text

STARTER = "SmolLM2-135M-Instruct"
OFFER = "Not here yet. A small one to begin with: 93 MB to fetch."
_KEY = Qt.ItemDataRole.UserRole + 1

Entry = Any
"""A ModelInfo, a Download, or None for the starter's offer."""


def key_of(entry: Entry) -> str:
    """What tells rows apart: a path, ``hub:owner/name``, or '' for the offer."""
    if entry is None:
        return ""
    return f"hub:{entry.repository}" if isinstance(entry, Download) else str(entry.path)


def is_starter(info: Any) -> bool:
    """True for the model that this app fetches by itself."""
    return info.source == "this app" and info.name.startswith(STARTER)


class ModelsList(QListWidget):
    """Rows wrap anew when the panel is resized, and the selected one says more than the others."""

    removal_requested = Signal()
    """The selected download shall be given up."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        """As listed; a search hides some."""
        self._assess: Callable[[Any], tuple[Fit | None, str]] = lambda _: (None, "")
        self.loaded: str | None = None
        self.setItemDelegate(RowDelegate(self))
        self.setAccessibleName("Models on this computer")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setMouseTracking(True)
        self.setUniformItemSizes(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._context_menu)
        self.currentItemChanged.connect(lambda *_: self.scheduleDelayedItemsLayout())

    def show_entries(
        self, infos: Sequence[Any], downloads: Sequence[Download], recent: Sequence[str]
    ) -> None:
        """Other rows; the selection stays on the same one where it is still there."""
        place = {path: index for index, path in enumerate(recent)}

        def order(info: Any) -> tuple[bool, int, bool]:
            return info.problem is not None, place.get(str(info.path), len(place)), not is_starter(info)

        offer = [] if any(is_starter(info) and not info.problem for info in infos) else [None]
        entries = [*offer, *downloads, *sorted(infos, key=order)]
        if [key_of(entry) for entry in entries] != [key_of(entry) for entry in self.entries]:
            chosen = self.selected()
            self.entries = entries
            self._rebuild(key_of(chosen) if self.currentItem() else None)
        else:
            self.entries = entries
            self.retell()

    def set_assessment(self, assess: Callable[[Any], tuple[Fit | None, str]]) -> None:
        """How a model's fit and plan are found."""
        self._assess = assess
        self.retell()

    def retell(self) -> None:
        """Say of every row what holds now."""
        for index, entry in enumerate(self.entries):
            self._tell(self.item(index), entry)
        self.scheduleDelayedItemsLayout()

    def narrow(self, text: str) -> int:
        """Show only rows that have all these words; how many."""
        wanted = text.casefold().split()
        shown = 0
        for index in range(self.count()):
            item = self.item(index)
            said = str(item.data(Qt.ItemDataRole.AccessibleTextRole)).casefold()
            item.setHidden(not all(word in said for word in wanted))
            shown += not item.isHidden()
        return shown

    def selected(self) -> Entry:
        """The entry of the current row, None also where there is none."""
        row = self.currentRow()
        return self.entries[row] if 0 <= row < len(self.entries) else None

    def select(self, key: str) -> None:
        """Make a row the current one."""
        keys = [key_of(entry) for entry in self.entries]
        if key in keys:
            self.setCurrentRow(keys.index(key))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Heights depend on the width."""
        super().resizeEvent(event)
        self.scheduleDelayedItemsLayout()

    def minimumSizeHint(self) -> QSize:
        """A row at least, the rest scrolls: a long notice below takes its room here, not from the chats."""
        return QSize(120, 44)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete gives a download up; models are the person's own files."""
        if event.type() == QEvent.Type.KeyPress and event.key() == Qt.Key.Key_Delete:
            if isinstance(self.selected(), Download):
                self.removal_requested.emit()
            return
        super().keyPressEvent(event)

    def _rebuild(self, chosen: str | None) -> None:
        self.clear()
        for entry in self.entries:
            item = QListWidgetItem()
            item.setData(_KEY, key_of(entry))
            self.addItem(item)
            self._tell(item, entry)
        self.setCurrentRow(0)
        if chosen is not None:
            self.select(chosen)

    def _tell(self, item: QListWidgetItem, entry: Entry) -> None:
        text = self._text(entry)
        if item.data(ROW) != text:
            item.setData(ROW, text)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, text.spoken)
            where = "" if entry is None or isinstance(entry, Download) else f"\n{entry.source}: {entry.path}"
            item.setToolTip(text.spoken + where)

    def _text(self, entry: Entry) -> RowText:
        if entry is None:
            return RowText("Starter model", OFFER)
        if isinstance(entry, Download):
            return RowText(entry.repository, words.clean(entry.words), share=entry.share or 0.0)
        fit, plan = self._assess(entry)
        return row_text(entry, loaded=str(entry.path) == self.loaded, fit=fit, plan=plan)

    def _context_menu(self, place: QPoint) -> None:
        item = self.itemAt(place)
        if item is None:
            return
        self.setCurrentItem(item)
        menu = self.menu()
        menu.exec(self.viewport().mapToGlobal(place))
        menu.deleteLater()

    def menu(self) -> QMenu:
        """What can be done with the selected row besides its button."""
        entry, menu = self.selected(), QMenu(self)
        if isinstance(entry, Download):
            menu.addAction("Cancel download").triggered.connect(self.removal_requested)
        elif entry is not None:
            folder = entry.path if entry.path.is_dir() else entry.path.parent
            menu.addAction("Show in file manager").triggered.connect(
                lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
            )
            menu.addAction("Copy path").triggered.connect(
                lambda: QGuiApplication.clipboard().setText(str(entry.path))
            )
        return menu
