"""The kept chats: a list to open, search, rename, delete and export from. It knows rows, not the store."""

import time
from collections.abc import Sequence

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QMenu,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from studio.core.search import Hit
from studio.core.store import ChatRow
from studio.ui import parts, words
from studio.ui.model_row import ROW, RowDelegate, RowText
from studio.ui.search_line import SearchLine

Row = ChatRow | Hit
AnyIndex = QModelIndex | QPersistentModelIndex
SEARCH_MS = 120
"""A search waits for the next key this long."""


class ChatsModel(QAbstractListModel):
    """Rows as the store gave them, more of them as the person scrolls."""

    more_wanted = Signal()
    renamed = Signal(int, str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []
        self.open_chat: int | None = None
        self._more = False

    def set_rows(self, rows: Sequence[Row], more: bool) -> None:
        """Other rows; ``more`` when the store has some after them."""
        self.beginResetModel()
        self.rows, self._more = list(rows), more
        self.endResetModel()

    def add_rows(self, rows: Sequence[Row], more: bool) -> None:
        """The next page."""
        self._more = more
        if rows:
            self.beginInsertRows(QModelIndex(), len(self.rows), len(self.rows) + len(rows) - 1)
            self.rows += rows
            self.endInsertRows()

    def row_of(self, chat: int | None) -> int:
        """Place of a chat, -1 when it is not among the rows."""
        return next((n for n, row in enumerate(self.rows) if id_of(row) == chat), -1)

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        """All rows so far."""
        return 0 if parent.isValid() else len(self.rows)

    def canFetchMore(self, parent: AnyIndex) -> bool:
        """True while the store has more."""
        return self._more

    def fetchMore(self, parent: AnyIndex) -> None:
        """Ask for the next page."""
        self._more = False
        self.more_wanted.emit()

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Words for the eye, the ear, and the editor."""
        row = self.rows[index.row()]
        text = row_text(row, is_open=id_of(row) == self.open_chat)
        if role == ROW:
            return text
        if role in (Qt.ItemDataRole.EditRole, Qt.ItemDataRole.DisplayRole):
            return words.clean(row.title)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{text.name}. {text.detail}"
        return f"{text.name}\n{text.detail}" if role == Qt.ItemDataRole.ToolTipRole else None

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        """Every row can be renamed."""
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: AnyIndex, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """The person gave another name."""
        row = self.rows[index.row()]
        if not str(value).strip() or value == words.clean(row.title):
            return False
        self.renamed.emit(id_of(row), str(value))
        return True


class _Delegate(RowDelegate):
    """Rows of chats, named by how they begin; the name is edited where it stands."""

    elide = Qt.TextElideMode.ElideRight

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        """Over the name only."""
        box = option.rect
        editor.setGeometry(box.adjusted(3, 2, -3, -box.height() + editor.sizeHint().height() + 4))

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: AnyIndex) -> None:
        """Hand the new name on."""
        if isinstance(editor, QLineEdit):
            model.setData(index, editor.text())


class ChatsPanel(QFrame):
    """Commands leave as signals with a chat's number."""

    open_requested = Signal(int, object)
    """Chat, and the message to show or None."""
    new_requested = Signal()
    rename_requested = Signal(int, str)
    delete_requested = Signal(int)
    undo_requested = Signal(int)
    export_requested = Signal(int)
    search_changed = Signal(str)
    more_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Chats")
        self._deleted: int | None = None
        self._told = ""

        head = QHBoxLayout()
        parts.margins(head, 8, 0, 0, 0, 4)
        heading = parts.Elided("Chats")
        heading.setProperty("text-role", "heading")
        self.new_button = parts.button("New", "link", "Begin another chat (Ctrl+N)", "New chat")
        self.menu_button = parts.button(
            "More", "link", "Rename, export or delete the selected chat", "Selected chat"
        )
        head.addWidget(heading, 1)
        head.addWidget(self.new_button)
        head.addWidget(self.menu_button)
        self.search = SearchLine("Search all chats")
        self.model = ChatsModel(self)
        self.list = QListView()
        self.list.setModel(self.model)
        self.list.setItemDelegate(_Delegate(self.list))
        self.list.setAccessibleName("Kept chats")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.list.setResizeMode(QListView.ResizeMode.Adjust)
        self.list.setMouseTracking(True)
        self.list.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.nothing = parts.label("", "small", wrap=True)
        self._undo = parts.surface("raised")
        row = QHBoxLayout(self._undo)
        parts.margins(row, 10, 4, 6, 4, 4)
        self._undo_words = parts.Elided()
        self._undo_words.setProperty("text-role", "small")
        undo = parts.button("Undo", "link", "Bring the chat back; it is gone for good when the app is closed")
        row.addWidget(self._undo_words, 1)
        row.addWidget(undo)
        self._undo.hide()
        column = QVBoxLayout(self)
        parts.margins(column, 10, 10, 10, 8, 6)
        column.addLayout(head)
        column.addWidget(self.search)
        column.addWidget(self.nothing)
        column.addWidget(self.list, 1)
        column.addWidget(self._undo)

        self._menu = QMenu(self)
        self._menu.addAction("Rename").triggered.connect(lambda: self.list.edit(self.list.currentIndex()))
        self._menu.addAction("Export…").triggered.connect(lambda: self._with_selected(self.export_requested))
        self._menu.addAction("Delete").triggered.connect(lambda: self._with_selected(self.delete_requested))
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(SEARCH_MS)
        self._pause.timeout.connect(self._search)
        self.search.textChanged.connect(lambda _: self._pause.start())
        self.search.returnPressed.connect(self._search)
        self.new_button.clicked.connect(self.new_requested)
        self.menu_button.clicked.connect(
            lambda: self._menu.exec(self.menu_button.mapToGlobal(QPoint(0, self.menu_button.height())))
        )
        self.list.customContextMenuRequested.connect(self._context_menu)
        self.list.clicked.connect(lambda index: self._open(index.row()))
        self.list.activated.connect(lambda index: self._open(index.row()))
        self.list.selectionModel().currentChanged.connect(lambda *_: self._buttons())
        self.list.installEventFilter(self)
        undo.clicked.connect(self._undone)
        self.model.more_wanted.connect(self.more_requested)
        self.model.renamed.connect(self.rename_requested)
        self.show_rows([], more=False)

    # What the window tells the panel -----------------------------------------------------------

    def show_rows(self, rows: Sequence[Row], *, more: bool) -> None:
        """Show chats, or what a search found; the open one stays selected."""
        self.model.set_rows(rows, more)
        self._select_open()
        searching = bool(self.search.text().strip())
        self.nothing.setText("No chat has all these words." if searching else "What you say is kept here.")
        self.nothing.setVisible(not rows)
        self._buttons()

    def set_open(self, chat: int | None) -> None:
        """The chat that is on the page, None for one not kept yet."""
        self.model.open_chat = chat
        self._select_open()
        self.list.viewport().update()

    def offer_undo(self, chat: int, title: str) -> None:
        """A chat was deleted and can be brought back."""
        self._deleted = chat
        self._undo_words.setText(words.clean(f"Deleted: {title}"))
        self._undo.show()

    def is_searching(self) -> bool:
        """True while a search narrows the list."""
        return bool(self.search.text().strip())

    # Inside ------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Delete on a row deletes it."""
        pressed = (
            event.key() if isinstance(event, QKeyEvent) and event.type() == event.Type.KeyPress else None
        )
        if watched is self.list and pressed in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._with_selected(self.delete_requested)
            return True
        return super().eventFilter(watched, event)

    def _select_open(self) -> None:
        at = self.model.row_of(self.model.open_chat)
        if at >= 0:
            self.list.setCurrentIndex(self.model.index(at))
        else:
            self.list.clearSelection()
            self.list.selectionModel().clearCurrentIndex()
        self._buttons()

    def _open(self, row: int) -> None:
        if 0 <= row < len(self.model.rows):
            chosen = self.model.rows[row]
            message = chosen.message if isinstance(chosen, Hit) else None
            if id_of(chosen) != self.model.open_chat or message is not None:
                self.open_requested.emit(id_of(chosen), message)

    def _with_selected(self, signal: object) -> None:
        row = self.list.currentIndex().row()
        if 0 <= row < len(self.model.rows):
            signal.emit(id_of(self.model.rows[row]))  # type: ignore[attr-defined]

    def _context_menu(self, place: QPoint) -> None:
        index = self.list.indexAt(place)
        if index.isValid():
            self.list.setCurrentIndex(index)
            self._menu.exec(self.list.viewport().mapToGlobal(place))

    def _search(self) -> None:
        self._pause.stop()
        text = self.search.text().strip()
        if text != self._told:
            self._told = text
            self.search_changed.emit(text)

    def _undone(self) -> None:
        self._undo.hide()
        if self._deleted is not None:
            chat, self._deleted = self._deleted, None
            self.undo_requested.emit(chat)

    def _buttons(self) -> None:
        self.menu_button.setEnabled(self.list.currentIndex().isValid())


def id_of(row: Row) -> int:
    """The chat a row stands for."""
    return row.chat if isinstance(row, Hit) else row.id


def row_text(row: Row, *, is_open: bool) -> RowText:
    """What a row says."""
    day = words.when(row.updated, time.time())
    if isinstance(row, Hit):
        return RowText(words.clean(row.title), words.clean(row.excerpt) or day)
    tokens = words.count(row.tokens, "token") if row.tokens else ""
    return RowText(words.clean(row.title), ", ".join(word for word in (tokens, day) if word))
