"""The cache: which method, which preset, every parameter, what it will take, and the one button."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from studio.ui import parts
from studio.ui.errors import Notice
from studio.ui.figures import FiguresCard
from studio.ui.form import MethodForm
from veloxquant_mlx.config import DEFAULT_METHOD, KVCacheConfig, SlotShape
from veloxquant_mlx.steps import Plan
from veloxquant_mlx.telemetry import CacheSnapshot

CUSTOM = "Custom"
TAKES_EFFECT = "Takes effect with the next message: the conversation is read again through the new cache."
WAITING = "Applied. The next message reads the conversation again through this cache."
FIRST = "Takes effect with the next message."
SET = "Set for the first message."
IN_USE = "In use by this conversation."


class CachePanel(QFrame):
    """Method, preset, form, predicted and running figures, Apply.

    ``apply_requested`` carries the configuration to use from the next message on.
    """

    apply_requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Cache")
        self._methods: dict[str, type[KVCacheConfig]] = {}
        self._forms: dict[str, MethodForm] = {}
        self._applied: KVCacheConfig | None = None
        self._in_use: KVCacheConfig | None = None
        self._talking = False
        self._problem = ""
        self._folded = False
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._waiting_page())
        self._stack.addWidget(self._page())

    def _waiting_page(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        parts.margins(column, 14, 14, 14, 14, 8)
        column.addWidget(parts.label("Cache", "heading"))
        column.addWidget(parts.label("Getting the engine ready", "muted", wrap=True))
        column.addStretch(1)
        return page

    def _page(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        parts.margins(column, 0, 12, 0, 0, 8)

        head = QVBoxLayout()
        parts.margins(head, 14, 0, 14, 0, 8)
        pickers = QHBoxLayout()
        parts.margins(pickers, 0, 0, 0, 0, 8)
        self.method_box = QComboBox()
        self.method_box.setAccessibleName("Method")
        self.preset_box = QComboBox()
        self.preset_box.setAccessibleName("Preset")
        self.preset_box.setToolTip("Settings that belong together. Moving any control makes it Custom.")
        for box in (self.method_box, self.preset_box):
            box.setMinimumContentsLength(8)
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            pickers.addWidget(box, 1)
        self._summary = parts.label("", "small", wrap=True)
        head.addLayout(pickers)
        column.addLayout(head)

        self._scroll = QScrollArea()
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setMinimumHeight(96)
        self._holder = QWidget()
        self._form_stack = QVBoxLayout(self._holder)
        parts.margins(self._form_stack, 14, 0, 14, 8, 8)
        self._forms_column = QVBoxLayout()
        parts.margins(self._forms_column, 0, 0, 0, 0, 0)
        self._form_stack.addLayout(self._forms_column)
        self._form_stack.addWidget(self._summary)
        self._form_stack.addStretch(1)
        self._scroll.setWidget(self._holder)
        parts.clear_scroll(self._scroll)
        column.addWidget(self._scroll, 1)

        foot = parts.surface("footer")
        below = self._below = QVBoxLayout(foot)
        parts.margins(below, 14, 8, 14, 10, 8)
        self.figures = FiguresCard()
        self.notice = Notice()
        self.apply_button = parts.button("Apply", "primary", TAKES_EFFECT, "Apply cache settings")
        self._effect = parts.Words()
        self._effect.setProperty("text-role", "small")
        # Room for the longest sentence: the panel must not move while a slider is dragged.
        self._effect.reserve(3)
        row = QHBoxLayout()
        parts.margins(row, 0, 0, 0, 0, 10)
        row.addWidget(self.apply_button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._effect, 1, Qt.AlignmentFlag.AlignTop)
        for item in (self.figures, self.notice):
            below.addWidget(item)
        below.addLayout(row)
        column.addWidget(foot)

        self.method_box.currentIndexChanged.connect(self._method_chosen)
        self.preset_box.activated.connect(self._preset_chosen)
        self.apply_button.clicked.connect(self.apply)
        return page

    def event(self, event: QEvent) -> bool:
        """In a low panel the figures scroll with the form, so that the form keeps some room."""
        done = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._fold()
        return done

    def _fold(self) -> None:
        card = self.figures.sizeHint().height() + 8
        rest = self._below.sizeHint().height() - (0 if self._folded else card)
        form = round(180 * parts.text_scale())
        needed = form + card + rest + self.method_box.height()
        # Scrolling figures are narrower and so perhaps higher: a margin keeps them from flickering.
        fold = self.height() < needed + (32 if self._folded else 0)
        if fold != self._folded:
            self._folded = fold
            if fold:
                # Below the controls: those are what the panel is for.
                self._form_stack.insertWidget(1, self.figures)
            else:
                self._below.insertWidget(0, self.figures)

    # What the window tells the panel -----------------------------------------------------------

    def set_methods(self, methods: Mapping[str, type[KVCacheConfig]]) -> None:
        """Fill the picker; the default method comes up with its first preset."""
        self._methods = dict(methods)
        with QSignalBlocker(self.method_box):
            self.method_box.clear()
            for key, method in self._methods.items():
                self.method_box.addItem(method.label or key, key)
                self.method_box.setItemData(
                    self.method_box.count() - 1, method.summary, Qt.ItemDataRole.ToolTipRole
                )
        if not self._methods:
            return
        first = DEFAULT_METHOD if DEFAULT_METHOD in self._methods else next(iter(self._methods))
        method = self._methods[first]
        self.set_config(method.preset(next(iter(method.presets))) if method.presets else method())
        self._stack.setCurrentIndex(1)

    def config(self) -> KVCacheConfig | None:
        """The configuration the controls stand for, None before the methods are known."""
        form = self._forms.get(self.method_box.currentData() or "")
        return form.config() if form else None

    def set_config(self, config: KVCacheConfig) -> None:
        """Show a configuration of a known method."""
        with QSignalBlocker(self.method_box):
            self.method_box.setCurrentIndex(self.method_box.findData(config.method))
        self._settle()
        self._show_form(config.method).set_config(config)
        self._edited()

    def set_applied(self, config: KVCacheConfig) -> None:
        """The engine was told ``config``; it counts from the next message on."""
        self._applied = config
        self.notice.clear()
        self._edited()

    def set_in_use(self) -> None:
        """A reply began: what was applied is what runs now."""
        self._in_use, self._talking = self._applied, True
        self._say()

    def set_model(self, shapes: list[SlotShape] | None, context: int | None) -> None:
        """Shapes of the model's replaced slots, or None without a model."""
        self.figures.set_model(shapes, context)
        self._edited()

    def set_plan(self, plan: Plan | None) -> None:
        """What the method does to the loaded model's slots, in words."""
        self.figures.set_plan(plan)
        self._predict()

    def set_snapshot(self, snapshot: CacheSnapshot | None) -> None:
        """The running cache; None when there is none. Called at the pace of words, 4 Hz."""
        self.figures.set_snapshot(snapshot)
        if snapshot is None:
            self._talking, self._in_use = False, None
            self._say()
        if self.figures.wants_prediction:
            self._predict()

    # What the person does ----------------------------------------------------------------------

    def apply(self) -> None:
        """Hand the configuration on, as the button does."""
        config = self.config()
        if config is not None and not self._problem and config != self._applied:
            self.apply_requested.emit(config)

    def _method_chosen(self, index: int) -> None:
        key = self.method_box.itemData(index)
        if key is None:
            return
        fresh = key not in self._forms
        self._settle()
        form = self._show_form(key)
        if fresh and form.method.presets:
            form.set_config(form.method.preset(next(iter(form.method.presets))))
        self._edited()

    def _preset_chosen(self, index: int) -> None:
        form = self._forms[self.method_box.currentData()]
        name = self.preset_box.itemText(index)
        if name in form.method.presets:
            self._settle()
            form.set_config(form.method.preset(name))
        self._edited()

    def _show_form(self, key: str) -> MethodForm:
        if key not in self._forms:
            form = MethodForm(self._methods[key])
            form.changed.connect(lambda _config: self._edited())
            form.problem.connect(self._had_problem)
            self._forms[key] = form
            self._forms_column.addWidget(form)
        for other, form in self._forms.items():
            form.setVisible(other == key)
        method = self._methods[key]
        about = f"{method.summary} {method.paper}".strip()
        self._summary.setText(about)
        self._summary.setVisible(bool(about))
        self.method_box.setToolTip(about)
        return self._forms[key]

    def _settle(self) -> None:
        """Controls that stand for nothing go back to their last valid configuration."""
        if self._problem:
            self._problem = ""
            for form in self._forms.values():
                form.set_config(form.config())

    def _had_problem(self, sentence: str) -> None:
        self._problem = sentence
        self._say()

    def _edited(self) -> None:
        """The configuration may have changed: preset, prediction and words follow."""
        config = self.config()
        if config is None:
            return
        name = config.preset_name()
        with QSignalBlocker(self.preset_box):
            self.preset_box.clear()
            self.preset_box.addItems(list(config.presets))
            if name is None:
                self.preset_box.addItem(CUSTOM)
            self.preset_box.setCurrentText(name or CUSTOM)
        self.preset_box.setEnabled(bool(config.presets))
        self._predict()
        self._say()

    def _predict(self) -> None:
        config = self.config()
        if config is not None:
            self.figures.predict(config)

    def _say(self) -> None:
        config = self.config()
        differs = config is not None and config != self._applied
        self.apply_button.setEnabled(differs and not self._problem)
        if self._problem:
            text = self._problem
        elif differs:
            text = TAKES_EFFECT if self._talking else FIRST
        elif self._talking and self._applied != self._in_use:
            text = WAITING
        else:
            text = IN_USE if self._talking else SET
        self._effect.setText(text)
        parts.restyle(self._effect, text_role="bad" if self._problem else "small")


def shapes_of(info: Any) -> list[SlotShape] | None:
    """The slots of a model as far as its description tells, or None when it does not."""
    if info is None or not (info.kv_slots and info.heads and info.key_dim and info.value_dim):
        return None
    return [SlotShape(info.heads, info.key_dim, info.value_dim)] * info.kv_slots
