"""The cache: which method, which preset, every parameter, what it will take, and where it stands."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QFrame, QStackedLayout, QVBoxLayout, QWidget

from studio.core.presets import PresetStore
from studio.ui import parts
from studio.ui.applying import Standing
from studio.ui.cache_page import CachePage
from studio.ui.form import MethodForm
from studio.ui.preset_actions import PresetActions
from studio.ui.preset_box import CUSTOM, title_of
from studio.ui.setting_changes import SettingChange
from studio.ui.standing_row import Shown
from veloxquant_mlx.config import DEFAULT_METHOD, KVCacheConfig, SlotShape
from veloxquant_mlx.steps import Plan, PrefillStep
from veloxquant_mlx.telemetry import CacheSnapshot

PAUSE_MS = 350
"""A control that is moved by keys or clicks counts as let go after this long."""


class CachePanel(QFrame):
    """Method, preset, form, predicted and running figures, and where the settings stand."""

    apply_requested = Signal(object)
    """The configuration to use, as soon as it is let go."""
    cancel_requested = Signal()
    """Keep what is in use."""
    predicted = Signal(object)
    """The configuration the controls stand for while it is not the one in use, otherwise None."""

    renamed = Signal()
    """Configurations may have other titles than before."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Cache")
        self.presets = PresetStore()
        self._methods: dict[str, type[KVCacheConfig]] = {}
        self._forms: dict[str, MethodForm] = {}
        self._bases: dict[str, tuple[str, KVCacheConfig]] = {}
        """Method -> name and configuration that Reset goes back to."""
        self._shapes: list[SlotShape] = []
        """Of the loaded model's slots, as far as they are known."""
        self._settled: KVCacheConfig | None = None
        """What the controls stood for when they were let go last."""
        self._standing = Standing()
        self._progress: PrefillStep | None = None
        self._speed: float | None = None
        self._talking = False
        self._ghost: KVCacheConfig | None = None
        self.undo_stack = QUndoStack(self)
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE_MS)
        self._pause.timeout.connect(self._settle)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._waiting_page())
        self.page = page = CachePage()
        self._stack.addWidget(page)
        self.method_box, self.preset_box, self.menu = page.method_box, page.preset_box, page.menu
        self.figures, self.notice, self.row = page.figures, page.notice, page.row
        self._preset_actions = PresetActions(self, self.menu, self.presets)
        self._wire()

    def _waiting_page(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        parts.margins(column, 14, 14, 14, 14, 8)
        column.addWidget(parts.label("Cache", "heading"))
        column.addWidget(parts.label("Getting the engine ready", "muted", wrap=True))
        column.addStretch(1)
        return page

    def _wire(self) -> None:
        menu = self.menu
        self.method_box.currentIndexChanged.connect(self._method_chosen)
        self.preset_box.chosen.connect(self._preset_chosen)
        self.row.apply_clicked.connect(self.apply)
        self.row.cancel_clicked.connect(self.cancel_requested)
        menu.undo.triggered.connect(self.undo_stack.undo)
        menu.redo.triggered.connect(self.undo_stack.redo)
        menu.reset.triggered.connect(self._reset)
        menu.at_once.toggled.connect(self._say)
        self.undo_stack.indexChanged.connect(self._offer)

    # What the window tells the panel -----------------------------------------------------------

    def set_methods(self, methods: Mapping[str, type[KVCacheConfig]]) -> None:
        """Fill the picker; the default method comes up with its first preset."""
        self._methods = dict(methods)
        self.presets.load()
        with QSignalBlocker(self.method_box):
            self.method_box.clear()
            for key, method in self._methods.items():
                self.method_box.addItem(method.label or key, key)
                self.method_box.setItemData(
                    self.method_box.count() - 1, method.summary, Qt.ItemDataRole.ToolTipRole
                )
        if not self._methods:
            return
        self.set_config(_first(self._methods.get(DEFAULT_METHOD) or next(iter(self._methods.values()))))
        self._settled = self.config()
        # Nobody has moved a control yet: there is nothing to be let go.
        self._pause.stop()
        self._stack.setCurrentIndex(1)

    @property
    def methods(self) -> Mapping[str, type[KVCacheConfig]]:
        """The catalogue, empty before it is known."""
        return self._methods

    def config(self) -> KVCacheConfig | None:
        """The configuration the controls stand for, None before the methods are known."""
        form = self._forms.get(self.method_box.currentData() or "")
        return form.config() if form else None

    def set_config(self, config: KVCacheConfig) -> None:
        """Show a configuration of a known method."""
        with QSignalBlocker(self.method_box):
            self.method_box.setCurrentIndex(self.method_box.findData(config.method))
        self._show_form(config.method).set_config(config)
        self._edited()

    def title(self, config: KVCacheConfig) -> str:
        """Method and preset in words."""
        name = title_of(config, self.presets.of(config.method))
        bare = name == CUSTOM and config == type(config)()
        return config.label if bare else f"{config.label} {name}"

    def set_standing(self, standing: Standing) -> None:
        """What the engine uses, was told, and will be told."""
        if standing.running is None:
            self._progress = None
        self._standing = standing
        self._edited()

    def set_progress(self, step: PrefillStep | None) -> None:
        """How far the conversation is read again."""
        self._progress = step
        self._say()

    def set_talking(self, talking: bool = True) -> None:
        """A conversation has begun, or there is none any more."""
        if talking != self._talking:
            self._talking = talking
            self._say()

    def set_speed(self, speed: float | None) -> None:
        """Tokens read per second, measured; None while unknown."""
        self._speed = speed

    def set_model(self, shapes: list[SlotShape] | None, context: int | None, path: str = "") -> None:
        """Shapes of the model's replaced slots, or None without a model; ``path`` for commands to copy."""
        self._shapes = shapes or []
        self.figures.set_model(shapes, context)
        self._preset_actions.model = path
        self._edited()

    def set_plan(self, plan: Plan | None) -> None:
        """What the method does to the loaded model's slots, in words."""
        self.figures.set_plan(plan)
        self._predict()

    def set_snapshot(self, snapshot: CacheSnapshot | None) -> None:
        """The running cache; None when there is none. Called at the pace of words."""
        held = self.figures.tokens
        self.figures.set_snapshot(snapshot)
        if snapshot is None:
            self._talking = False
            self._say()
        elif self._ghost is not None and held != snapshot.tokens:
            # How many tokens would be read again.
            self._say()
        if self.figures.wants_prediction:
            self._predict()

    # What the person does ----------------------------------------------------------------------

    def apply(self) -> None:
        """Hand the configuration on, as the button does."""
        config = self.config()
        if config is not None:
            self.apply_requested.emit(config)

    def go_to(self, config: KVCacheConfig) -> None:
        """Show a configuration and use it, without a step to take back."""
        self._settled = config
        self.set_config(config)
        self._let_go()

    def choices(self) -> dict[str, KVCacheConfig]:
        """Settings by name: the uncompressed one first, then what the controls say, then every preset."""
        methods = self._methods.values()
        found = {method.label: method() for method in methods if not method.compresses}
        config = self.config()
        if config is not None:
            found[f"{self.title(config)} (now)"] = config
        for method in methods:
            if method.compresses:
                kept = {name: method.preset(name) for name in method.presets}
                kept |= {preset.name: preset.config for preset in self.presets.of(method.key())}
                found |= {f"{method.label} {name}": config for name, config in kept.items()}
        return found

    def choose(self, config: KVCacheConfig) -> None:
        """Take a setting found elsewhere over, as if it had been set by hand."""
        self.set_config(config)
        self._settle()

    def presets_changed(self) -> None:
        """A preset of one's own came, went or has another name."""
        self._edited()
        self.renamed.emit()

    def _method_chosen(self, index: int) -> None:
        key = self.method_box.itemData(index)
        if key is None:
            return
        fresh = key not in self._forms
        form = self._show_form(key)
        if fresh:
            form.set_config(_first(form.method))
        self._settle()

    def _preset_chosen(self, name: str, config: KVCacheConfig) -> None:
        self._bases[config.method] = (name, config)
        self._forms[config.method].set_config(config)
        self._settle()

    def _reset(self) -> None:
        config = self.config()
        if config is not None:
            self._preset_chosen(*self._base(config))

    def _base(self, config: KVCacheConfig) -> tuple[str, KVCacheConfig]:
        first = _first(type(config))
        return self._bases.get(config.method) or (first.preset_name() or "the defaults", first)

    def _show_form(self, key: str) -> MethodForm:
        if key not in self._forms:
            form = MethodForm(self._methods[key])
            form.changed.connect(lambda _config: self._edited())
            form.released.connect(self._settle)
            self._forms[key] = form
            form.set_limit(self._why_not)
            self.page.add_form(form)
        method = self._methods[key]
        self.page.show_form(self._forms[key], f"{method.summary} {method.paper}".strip())
        return self._forms[key]

    def _why_not(self, config: KVCacheConfig) -> str:
        """What the loaded model's slots have that a configuration can't store, in a sentence, or nothing."""
        misfits = (config.misfit(shape) for shape in dict.fromkeys(self._shapes))
        # After the semicolon stands what to do: the control does that by itself.
        has = next((misfit.partition(";")[0] for misfit in misfits if misfit), "")
        return f"The model has {has}." if has else ""

    def _edited(self) -> None:
        """The configuration may have changed: preset, prediction and words follow."""
        config = self.config()
        if config is None:
            return
        if config != self._settled and not self._forms[config.method].dragging():
            self._pause.start()
        self.preset_box.show_config(config, self.presets.of(config.method))
        self._predict()
        self._offer()
        self._say()

    def _settle(self) -> None:
        """The controls were let go: what they came to can be taken back, and is used."""
        self._pause.stop()
        config = self.config()
        if config is None or self._settled is None:
            return
        if config != self._settled:
            self.notice.clear()
            self.undo_stack.push(SettingChange(self._settled, config, self.go_to))
            self._settled = config
        self._let_go()

    def _let_go(self) -> None:
        if self.menu.at_once.isChecked():
            self.apply()
        self._edited()

    def _predict(self) -> None:
        config = self.config()
        if config is None:
            return
        self.figures.predict(config)
        ghost = config if config != self._standing.in_use and self._talking else None
        if ghost != self._ghost:
            self._ghost = ghost
            self.predicted.emit(ghost)

    def _offer(self) -> None:
        """What can be taken back and reset."""
        self.menu.undo.setEnabled(self.undo_stack.canUndo())
        self.menu.redo.setEnabled(self.undo_stack.canRedo())
        config = self.config()
        if config is not None:
            name, base = self._base(config)
            self.menu.reset.setText(f"Reset to {name}")
            self.menu.reset.setEnabled(config != base)
            self._preset_actions.offer(config)

    def _say(self) -> None:
        config = self.config()
        if config is None:
            return
        now = self._standing
        held = self._forms[config.method].dragging() or self._pause.isActive()
        in_hand = held and self.menu.at_once.isChecked()
        in_use = self.title(now.in_use) if now.in_use else ""
        tokens = self.figures.tokens
        self.row.show_standing(
            Shown(config, now, in_use, self._talking, in_hand, tokens, self._speed, self._progress)
        )


def _first(method: type[KVCacheConfig]) -> KVCacheConfig:
    """The configuration a method comes up with: its first preset, or its defaults."""
    return method.preset(next(iter(method.presets))) if method.presets else method()


def shapes_of(info: Any) -> list[SlotShape] | None:
    """The slots of a model as far as its description tells, or None when it does not."""
    if info is None or not (info.kv_slots and info.heads and info.key_dim and info.value_dim):
        return None
    return [SlotShape(info.heads, info.key_dim, info.value_dim)] * info.kv_slots
