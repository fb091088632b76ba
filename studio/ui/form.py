"""A method's declared fields as controls, and the controls as a configuration of the method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.controls import Segments, Switch, ValueSlider, caption
from veloxquant_mlx.config import Field, KVCacheConfig
from veloxquant_mlx.errors import QuantizerConfigError

_MANY = 5
"""More choices than this become a list to drop down."""


@dataclass(slots=True)
class _Row:
    """One field: its controls, how to read and set them, and the line for words below."""

    spec: Field
    widget: QWidget
    read: Callable[[], Any]
    show: Callable[[Any], None]
    note: QLabel


class MethodForm(QWidget):
    """Sliders, choices and switches of one method.

    ``changed`` carries every valid configuration the controls come to stand for, also while a
    slider is dragged. ``problem`` carries the sentence while they stand for none, '' when resolved.
    """

    changed = Signal(object)
    problem = Signal(str)

    def __init__(self, method: type[KVCacheConfig]) -> None:
        super().__init__()
        self.method = method
        self._config = method()
        self._rows: dict[str, _Row] = {}
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 5)
        shown = [spec for spec in method.fields() if spec.param.shown]
        for extension, title in ((False, "As documented"), (True, "Beyond the documented method")):
            group = [spec for spec in shown if spec.param.extension == extension]
            if not group:
                continue
            if extension or len(group) < len(shown):
                column.addWidget(caption(title))
            # Numbers first, switches together below them: the eye finds both faster.
            for spec in sorted(group, key=lambda item: item.type is bool):
                column.addWidget(self._add(spec))
        column.addStretch(1)
        self.set_config(self._config)

    def config(self) -> KVCacheConfig:
        """The last valid configuration."""
        return self._config

    def set_config(self, config: KVCacheConfig) -> None:
        """Show a configuration of this form's method without a signal. Unshown fields are kept."""
        self._config = config
        for name, row in self._rows.items():
            row.show(getattr(config, name))
        self._explain({}, config)

    def control(self, name: str) -> QWidget:
        """The widget of a field. Raises KeyError for a field that is not shown."""
        return self._rows[name].widget

    def note(self, name: str) -> str:
        """The words below a field: an error, why it is inactive, or nothing."""
        return self._rows[name].note.text()

    def _add(self, spec: Field) -> QWidget:
        widget, read, show = _make(spec, self._collect)
        note = parts.label("", "small", wrap=True)
        note.hide()
        holder = QWidget()
        column = QVBoxLayout(holder)
        parts.margins(column, 0, 0, 0, 0, 2)
        column.addWidget(widget)
        column.addWidget(note)
        if not widget.toolTip():
            widget.setToolTip(spec.param.help)
        self._rows[spec.name] = _Row(spec, widget, read, show, note)
        return holder

    def _collect(self) -> None:
        """Read every control; tell the world, or say below a control why it cannot be."""
        values = {spec.name: getattr(self._config, spec.name) for spec in self.method.fields()}
        values |= {name: row.read() for name, row in self._rows.items()}
        try:
            config = self.method(**values)
        except QuantizerConfigError as error:
            row = self._rows.get(error.field)
            sentence = str(error)
            for other in self._rows.values():
                sentence = sentence.replace(other.spec.name, other.spec.param.label)
            self._explain({error.field: sentence} if row else {}, self._config)
            self.problem.emit(sentence)
            return
        self._config = config
        self._explain({}, config)
        self.problem.emit("")
        self.changed.emit(config)

    def _explain(self, errors: dict[str, str], config: KVCacheConfig) -> None:
        inactive = config.inactive()
        for name, row in self._rows.items():
            words = errors.get(name) or inactive.get(name, "")
            row.widget.setEnabled(name not in inactive)
            row.note.setText(words)
            row.note.setVisible(bool(words))
            parts.restyle(row.note, text_role="bad" if name in errors else "small")


_Made = tuple[QWidget, Callable[[], Any], Callable[[Any], None]]


def _make(spec: Field, tell: Callable[[], None]) -> _Made:
    """The control for a field's type and range, its reader and its setter."""
    if spec.optional:
        return _optional(spec, tell)
    if spec.type is bool:
        return _switch(spec, tell)
    if spec.param.choices:
        return _choice(spec, tell)
    if spec.type in (int, float) and spec.param.low is not None and spec.param.high is not None:
        slider = _slider(spec)
        slider.changed.connect(lambda _: tell())
        return slider, slider.value, slider.set_value
    return _text(spec, tell)


def _slider(spec: Field) -> ValueSlider:
    low, high = float(spec.param.low or 0), float(spec.param.high or 0)
    whole = spec.type is int
    step = spec.param.step or (1 if whole else (high - low) / 100)
    return ValueSlider(spec.param.label, spec.param.unit, low, high, step, whole=whole, tip=spec.param.help)


def _switch(spec: Field, tell: Callable[[], None]) -> _Made:
    switch = Switch(spec.param.label)
    switch.setAccessibleName(spec.param.label)
    switch.setAccessibleDescription(spec.param.help)
    switch.toggled.connect(lambda _: tell())

    def show(value: Any) -> None:
        with QSignalBlocker(switch):
            switch.setChecked(value)

    return switch, switch.isChecked, show


def _choice(spec: Field, tell: Callable[[], None]) -> _Made:
    words = f"{spec.param.label}, {spec.param.unit}" if spec.param.unit else spec.param.label
    holder = QWidget()
    row = QVBoxLayout(holder)
    parts.margins(row, 0, 0, 0, 0, 4)
    top = QHBoxLayout()
    parts.margins(top, 0, 0, 0, 0, 4)
    top.addWidget(parts.label(spec.param.label), 1)
    top.addWidget(parts.label(spec.param.unit, "muted"))
    row.addLayout(top)
    if len(spec.param.choices) <= _MANY:
        segments = Segments(spec.param.choices, words, spec.param.help)
        segments.chosen.connect(lambda _: tell())
        row.addWidget(segments)
        return holder, segments.value, segments.set_value
    combo = QComboBox()
    combo.setAccessibleName(words)
    combo.setAccessibleDescription(spec.param.help)
    for choice in spec.param.choices:
        combo.addItem(str(choice), choice)
    combo.currentIndexChanged.connect(lambda _: tell())
    row.addWidget(combo)

    def show(value: Any) -> None:
        with QSignalBlocker(combo):
            combo.setCurrentIndex(spec.param.choices.index(value))

    return holder, combo.currentData, show


def _optional(spec: Field, tell: Callable[[], None]) -> _Made:
    """A switch that gives the field a value at all, and the control of the value below it."""
    plain = Field(spec.name, spec.type, False, spec.default, spec.param)
    holder = QWidget()
    column = QVBoxLayout(holder)
    parts.margins(column, 0, 0, 0, 0, 2)
    switch = Switch(spec.param.label)
    switch.setAccessibleName(f"Set {spec.param.label}")
    switch.setAccessibleDescription(spec.param.help)
    inner, read, show_inner = _make(plain, tell)
    column.addWidget(switch)
    column.addWidget(inner)
    inner.hide()

    def toggled(on: bool) -> None:
        inner.setVisible(on)
        tell()

    def show(value: Any) -> None:
        with QSignalBlocker(switch):
            switch.setChecked(value is not None)
        inner.setVisible(value is not None)
        if value is not None:
            show_inner(value)

    switch.toggled.connect(toggled)
    return holder, lambda: read() if switch.isChecked() else None, show


def _text(spec: Field, tell: Callable[[], None]) -> _Made:
    """A line of text: lists of whole numbers, words and numbers without a range."""
    holder = QWidget()
    column = QVBoxLayout(holder)
    parts.margins(column, 0, 0, 0, 0, 2)
    column.addWidget(parts.label(spec.param.label))
    line = QLineEdit()
    line.setAccessibleName(spec.param.label)
    line.setAccessibleDescription(spec.param.help)
    column.addWidget(line)
    line.editingFinished.connect(tell)

    def read() -> Any:
        text = line.text().strip()
        try:
            if spec.type is tuple:
                return tuple(int(part) for part in text.replace(",", " ").split())
            return spec.type(text)
        except ValueError:
            # The method itself says what it wants: hand it what was written.
            return text

    def show(value: Any) -> None:
        line.setText(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))

    return holder, read, show
