"""A method's declared fields as controls, and the controls as a configuration of the method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QLabel, QToolTip, QVBoxLayout, QWidget

from studio.ui import parts
from studio.ui.bit_bar import BitBar
from studio.ui.controls import Switch
from studio.ui.fields import Choice, Labelled, OrAutomatic, TextBlock, TextLine, ValueSlider, somewhere
from veloxquant_mlx.declared import Declared, Field
from veloxquant_mlx.errors import QuantizerConfigError

_BY_KEYBOARD = (
    Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason,
)  # fmt: skip
_HELP_MS = 30_000

Control = Labelled | OrAutomatic | Switch


@dataclass(slots=True)
class _Row:
    """One field: its control and the line for words below it."""

    spec: Field
    control: Control
    note: QLabel
    holder: QWidget


class MethodForm(QWidget):
    """Sliders, choices, bars and switches of one method.

    The controls always stand for a configuration that can be: one that is moved beyond it stops at the
    last value that can, and says below it which other field forbids the next.
    """

    changed = Signal(object)
    """Every configuration the controls come to stand for, also while a slider is dragged."""
    released = Signal()
    """The mouse let go of what it dragged."""

    def __init__(self, method: type[Declared]) -> None:
        super().__init__()
        self.method: Any = method
        self._config = method()
        self._why_not: Callable[[Any], str] = lambda config: ""
        self._rows: dict[str, _Row] = {}
        column = QVBoxLayout(self)
        parts.margins(column, 0, 0, 0, 0, 5)
        shown = [spec for spec in method.fields() if spec.param.shown]
        for extension, title in ((False, "As documented"), (True, "Beyond the documented method")):
            group = [spec for spec in shown if spec.param.extension == extension]
            if not group:
                continue
            if extension or len(group) < len(shown):
                column.addWidget(parts.label(title, "heading", wrap=True))
            # Numbers first, switches together below them: the eye finds both faster.
            for spec in sorted(group, key=lambda item: item.type is bool):
                column.addWidget(self._add(spec))
        column.addStretch(1)
        self.set_config(self._config)

    def config(self) -> Any:
        """What the controls stand for."""
        return self._config

    def set_limit(self, why_not: Callable[[Any], str]) -> None:
        """What else a configuration must suit; ``why_not`` says in a sentence why it does not, or nothing."""
        self._why_not = why_not

    def set_config(self, config: Declared) -> None:
        """Show a configuration of this form's method without a signal. Unshown fields are kept."""
        self._config = config
        for name, row in self._rows.items():
            row.control.set_value(getattr(config, name))
        self._explain()

    def control(self, name: str) -> Control:
        """The control of a field. Raises KeyError for a field that is not shown."""
        return self._rows[name].control

    def note(self, name: str) -> str:
        """The words below a field: why it went no further, why it is inactive, or nothing."""
        return self._rows[name].note.text()

    def show_field(self, name: str, shown: bool) -> None:
        """Show or hide a field with its words, as a search does."""
        self._rows[name].holder.setVisible(shown)

    def dragging(self) -> bool:
        """True while the mouse holds a slider or a column."""
        return any(not isinstance(r.control, Switch) and r.control.dragging() for r in self._rows.values())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Who comes by keyboard reads the same help as who comes by mouse."""
        if isinstance(event, QFocusEvent) and event.gotFocus() and event.reason() in _BY_KEYBOARD:
            # Afterwards: a change of focus closes tooltips.
            QTimer.singleShot(0, self, lambda: self._help(watched))
        return super().eventFilter(watched, event)

    def _help(self, part: QObject) -> None:
        if isinstance(part, QWidget) and part.hasFocus():
            below = part.mapToGlobal(QPoint(0, part.height() + 2))
            QToolTip.showText(below, part.accessibleDescription(), part, part.rect(), _HELP_MS)

    def _add(self, spec: Field) -> QWidget:
        control = make_control(spec)
        control.changed.connect(lambda _value, name=spec.name: self._moved(name))
        if not isinstance(control, Switch):
            control.released.connect(self.released)
        note = parts.label("", "small", wrap=True)
        note.hide()
        holder = QWidget()
        column = QVBoxLayout(holder)
        parts.margins(column, 0, 0, 0, 0, 2)
        column.addWidget(control)
        column.addWidget(note)
        for part in holder.findChildren(QWidget):
            part.installEventFilter(self)
        self._rows[spec.name] = _Row(spec, control, note, holder)
        return holder

    def _moved(self, name: str) -> None:
        """Take over a control's value, or the last one on its way that can be."""
        row = self._rows[name]
        wanted, refusal = row.control.value(), ""
        try:
            config = self._with(name, wanted)
        except QuantizerConfigError as error:
            config, refusal = self._as_far_as_can_be(row.spec, wanted, error)
            row.control.set_value(getattr(config, name))
        moved = config != self._config
        self._config = config
        self._explain(name, refusal)
        if moved:
            self.changed.emit(config)

    def _with(self, name: str, value: Any) -> Declared:
        values = {spec.name: getattr(self._config, spec.name) for spec in self.method.fields()}
        config = self.method(**values | {name: value})
        reason = self._why_not(config)
        # From a configuration that does not suit every way leads out.
        if reason and not self._why_not(self._config):
            raise QuantizerConfigError(name, reason)
        return config

    def _as_far_as_can_be(
        self, spec: Field, wanted: Any, error: QuantizerConfigError
    ) -> tuple[Declared, str]:
        """The configuration nearest to the wanted one on the way from the present, and why no further."""
        now = getattr(self._config, spec.name)
        config = self._config
        if spec.type in (int, float) and not spec.param.choices and isinstance(now, (int, float)):
            step = (spec.param.step or 1) * (1 if wanted > now else -1)
            # The first goes, the second doesn't: halve what is between.
            goes, fails = 0, max(1, round((wanted - now) / step))
            while fails - goes > 1:
                middle = (goes + fails) // 2
                try:
                    config, goes = self._with(spec.name, round(now + middle * step, 10)), middle
                except QuantizerConfigError as nearer:
                    error, fails = nearer, middle
        sentence = str(error)
        for other in self.method.fields():
            sentence = sentence.replace(other.name, other.param.label)
        return config, sentence

    def _explain(self, at: str = "", refusal: str = "") -> None:
        inactive = self._config.inactive()
        for name, row in self._rows.items():
            refused = refusal if name == at else ""
            words = refused or inactive.get(name, "")
            row.control.setEnabled(name not in inactive)
            if words != row.note.text():
                row.note.setText(words)
                row.note.setVisible(bool(words))
                parts.restyle(row.note, text_role="warn" if refused else "small")


def make_control(spec: Field) -> Control:
    """The control for a field's type and range."""
    words = spec.param
    if spec.type is bool and not spec.stand_ins:
        return Switch(words.label, words.help)
    if len(spec.stand_ins) == 1:
        inner = _make_labelled(spec)
        inner.set_value(_first_value(spec))
        return OrAutomatic(inner, spec.stand_ins[0], words.unset)
    return _make_labelled(spec)


def _make_labelled(spec: Field) -> Labelled:
    words = spec.param
    if words.lines > 1:
        return TextBlock(words.label, words.unit, words.lines, words.help)
    if len(spec.stand_ins) > 1:
        return TextLine(words.label, words.unit, lambda text: _read(spec, text), words.help)
    if words.choices or spec.type is bool:
        return Choice(words.label, words.unit, words.choices or (True, False), words.help)
    if words.low is not None and words.high is not None:
        if spec.type is tuple:
            return BitBar(words.label, words.unit, int(words.low), int(words.high), words.help)
        if spec.type in (int, float):
            return ValueSlider(
                words.label, words.unit, float(words.low), float(words.high), _step(spec),
                whole=spec.type is int, tip=words.help,
            )  # fmt: skip
    return TextLine(words.label, words.unit, lambda text: _read(spec, text), words.help)


def _step(spec: Field) -> float:
    low, high = spec.param.low or 0, spec.param.high or 0
    return spec.param.step or (1 if spec.type is int else (high - low) / 100)


def _first_value(spec: Field) -> Any:
    """What a field left automatic is set to when a person takes it over."""
    if spec.default not in spec.stand_ins:
        return spec.default
    if spec.param.choices:
        return spec.param.choices[0]
    low, high = spec.param.low, spec.param.high
    if low is None or high is None:
        return () if spec.type is tuple else spec.type(low or 0)
    if spec.type is tuple:
        return (int(somewhere(low, high, 1)),) * 8
    return spec.type(somewhere(low, high, _step(spec)))


def _read(spec: Field, text: str) -> Any:
    """Text as a value of the field; ValueError where it is none."""
    if text in spec.words:
        return text
    if spec.optional and text in ("", "None"):
        return None
    if spec.type is tuple:
        return tuple(int(part) for part in text.replace(",", " ").split())
    return spec.type(text)
