"""What the cache panel shows: pickers above, the form in the middle, figures and standing below."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.errors import Notice
from studio.ui.figures import FiguresCard
from studio.ui.form import MethodForm
from studio.ui.icons import IconButton
from studio.ui.preset_box import PresetBox
from studio.ui.preset_menu import PresetMenu
from studio.ui.standing_row import StandingRow

FORM = 180
"""Pixels of the form at 100 % text below which it takes the lesser figures' place."""
_MARGIN = 32


class CachePage(QWidget):
    """Places the parts and keeps room for them; what they say and do is the panel's."""

    def __init__(self) -> None:
        super().__init__()
        self._folded = False
        self._forms: list[MethodForm] = []
        column = QVBoxLayout(self)
        parts.margins(column, 0, 12, 0, 0, 8)
        column.addLayout(self._pickers())
        column.addWidget(self._form_area(), 1)
        column.addWidget(self._footer())

    def _pickers(self) -> QHBoxLayout:
        row = QHBoxLayout()
        parts.margins(row, 14, 0, 10, 0, 4)
        self.method_box = QComboBox()
        self.method_box.setAccessibleName("Method")
        self.preset_box = PresetBox()
        # Uncompressed is the longest name of a method; those of presets are shorter or end in dots.
        for box, share in ((self.method_box, 5), (self.preset_box, 4)):
            box.setMinimumContentsLength(7)
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            row.addWidget(box, share)
        self.menu = PresetMenu(self)
        row.addWidget(self.menu)
        return row

    def _form_area(self) -> QScrollArea:
        self._area = area = QScrollArea()
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setMinimumHeight(96)
        self.holder = QWidget()
        self._scrolled = QVBoxLayout(self.holder)
        parts.margins(self._scrolled, 14, 0, 14, 8, 8)
        self._form_column = QVBoxLayout()
        parts.margins(self._form_column, 0, 0, 0, 0, 0)
        self._scrolled.addLayout(self._form_column)
        self._summary = parts.Words("small")
        self._scrolled.addWidget(self._summary)
        self._scrolled.addStretch(1)
        area.setWidget(self.holder)
        parts.clear_scroll(area)
        return area

    def _footer(self) -> QWidget:
        foot = parts.surface("footer")
        self._below = QVBoxLayout(foot)
        parts.margins(self._below, 14, 8, 14, 8, 6)
        self.figures = FiguresCard()
        self.notice = Notice()
        self.row = StandingRow()
        for item in (self.figures, self.notice, self.row):
            self._below.addWidget(item)
        self.undo_button = self._follower("undo", self.menu.undo)
        self.redo_button = self._follower("redo", self.menu.redo)
        self.reset_button = self._follower("reset", self.menu.reset)
        return foot

    def _follower(self, sign: str, action: QAction) -> IconButton:
        button = IconButton(sign, action.text())
        button.follow(action)
        self.row.add_button(button)
        return button

    def add_form(self, form: MethodForm) -> None:
        """A form that can be shown."""
        self._forms.append(form)
        self._form_column.addWidget(form)

    def show_form(self, shown: MethodForm, about: str) -> None:
        """One of the forms, with what its method is about below it."""
        if shown.isHidden():
            # Another method begins at its first control.
            self._area.verticalScrollBar().setValue(0)
        for form in self._forms:
            form.setVisible(form is shown)
        self._summary.setText(about)
        self._summary.setVisible(bool(about))
        self.method_box.setToolTip(about)

    def event(self, event: QEvent) -> bool:
        """In a low panel all figures but the predicted ones scroll with the form, which so keeps its room."""
        done = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._fold()
        return done

    def _fold(self) -> None:
        lesser = self.figures.rest
        needed = round(FORM * parts.text_scale()) + self.method_box.height() + self._below.sizeHint().height()
        if self._folded:
            # Scrolling figures are narrower and so perhaps higher: a margin keeps them from flickering.
            needed += lesser.sizeHint().height() + _MARGIN
        fold = self.height() < needed
        if fold != self._folded:
            self._folded = fold
            if fold:
                # Below the controls: those are what the panel is for.
                self._scrolled.insertWidget(1, lesser)
            else:
                self.figures.take_back_rest()
