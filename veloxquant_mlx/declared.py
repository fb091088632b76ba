"""Records whose fields declare range, step, unit and words, read by checks, forms and command lines alike."""

import dataclasses
import math
import reprlib
import types
import typing
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, Literal

from .errors import QuantizerConfigError


@dataclass(frozen=True, slots=True)
class Param:
    """Range and words of one parameter."""

    label: str
    help: str
    """What it does and what it costs, one or two sentences."""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    step: float | None = None
    choices: tuple[Any, ...] = ()
    extension: bool = False
    """True for a field that goes beyond the documented method and is off by default."""
    shown: bool = True
    """False keeps it out of the studio's form; file, command line and report still have it."""
    unset: str = "Automatic"
    """What a form calls None, or the field's word, where it stands in place of a value."""
    lines: int = 1
    """Lines of text a form has room for; more than one lets the text have line breaks."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter together with its name, type and default, as forms and command lines need it."""

    name: str
    type: type
    """int, float, bool or tuple."""
    optional: bool
    """True when None is a value of its own."""
    default: Any
    param: Param
    words: tuple[str, ...] = ()
    """Words that may stand in place of a value: ``tuple[int, ...] | Literal["auto"]`` has "auto"."""

    @property
    def stand_ins(self) -> tuple[str | None, ...]:
        """What may stand in place of a value of the type: None where it is optional, then the words."""
        return ((None,) if self.optional else ()) + self.words


def param(default: Any, *, label: str, help: str, **words: Any) -> Any:
    """Declare a method's parameter: a dataclass field that carries its Param."""
    return field(default=default, metadata={"param": Param(label=label, help=help, **words)})


@dataclass(frozen=True)
class Declared:
    """A frozen dataclass made of ``param()`` fields: an instance is always in range.

    Raises QuantizerConfigError on making one out of range; its ``field`` names the parameter.
    """

    def __post_init__(self) -> None:
        for spec in self.fields():
            object.__setattr__(self, spec.name, _checked(spec, getattr(self, spec.name)))
        self.check()

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The parameters in declared order."""
        return _fields_of(cls)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """Every parameter, JSON-ready."""
        values = {spec.name: getattr(self, spec.name) for spec in self.fields()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def check(self) -> None:
        """Refuse combinations that cannot exist; raises QuantizerConfigError."""

    def inactive(self) -> dict[str, str]:
        """Parameters without effect as set now -> the reason in words, naming the other."""
        return {}


@cache
def _fields_of(declared: type[Declared]) -> tuple[Field, ...]:
    # Kept per class: reading annotations takes longer than everything else an instance is checked for.
    hints = typing.get_type_hints(declared)
    made = dataclasses.fields(declared)
    return tuple(_field(item, hints[item.name]) for item in made if "param" in item.metadata)


def _field(item: "dataclasses.Field[Any]", hint: Any) -> Field:
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = typing.get_args(hint) if is_union else (hint,)
    words = [word for kind in kinds if typing.get_origin(kind) is Literal for word in typing.get_args(kind)]
    kind = next(k for k in kinds if k is not type(None) and typing.get_origin(k) is not Literal)
    kind = typing.get_origin(kind) or kind
    default = None if item.default is MISSING else item.default
    return Field(item.name, kind, type(None) in kinds, default, item.metadata["param"], tuple(words))


def _checked(spec: Field, value: Any) -> Any:
    """``value`` in the field's type and range, or QuantizerConfigError."""
    if (value is None and spec.optional) or (isinstance(value, str) and value in spec.words):
        return value
    wants = _wants(spec)

    def refuse() -> QuantizerConfigError:
        return QuantizerConfigError(spec.name, f"{spec.name} must be {wants}, not {reprlib.repr(value)}.")

    if spec.type is bool:
        if not isinstance(value, bool):
            raise refuse()
        return value
    if spec.type is tuple:
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise refuse()
        low, high = spec.param.low, spec.param.high
        for item in value:
            whole = isinstance(item, int) and not isinstance(item, bool)
            if not whole or (low is not None and item < low) or (high is not None and item > high):
                raise refuse()
        return tuple(value)
    if spec.type in (int, float):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse()
        if isinstance(value, float) and not math.isfinite(value):
            raise refuse()
        if spec.type is int and value != int(value):
            raise refuse()
        value = spec.type(value)
        low, high = spec.param.low, spec.param.high
        if not (low is None or value >= low) or not (high is None or value <= high):
            raise refuse()
    elif not isinstance(value, spec.type):
        raise refuse()
    if spec.param.choices and value not in spec.param.choices:
        raise refuse()
    return value


def _wants(spec: Field) -> str:
    """The allowed values of a field in words."""
    if spec.param.choices:
        text = "one of " + ", ".join(map(str, spec.param.choices))
    elif spec.type is bool:
        text = "True or False"
    else:
        kind = {int: "a whole number", float: "a number", tuple: "a list of whole numbers"}.get(
            spec.type, spec.type.__name__
        )
        low, high = spec.param.low, spec.param.high
        if low is not None and high is not None:
            bounds = f" from {low:g} to {high:g}"
        elif low is not None:
            bounds = f" of at least {low:g}"
        else:
            bounds = f" of at most {high:g}" if high is not None else ""
        text = kind + bounds
    return " or ".join([text, *(str(word) if word is None else repr(word) for word in spec.stand_ins)])
