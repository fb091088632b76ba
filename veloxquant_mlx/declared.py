"""Records whose fields declare range, step, unit and words, read by checks, forms and command lines alike."""

import dataclasses
import math
import types
import typing
from dataclasses import MISSING, dataclass, field
from typing import Any

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
        hints = typing.get_type_hints(cls)
        found = []
        for item in dataclasses.fields(cls):
            if "param" not in item.metadata:
                continue
            args = typing.get_args(hints[item.name])
            is_union = isinstance(hints[item.name], types.UnionType)
            kinds = [a for a in args if a is not type(None)] if is_union else [hints[item.name]]
            kind = typing.get_origin(kinds[0]) or kinds[0]
            default = None if item.default is MISSING else item.default
            found.append(Field(item.name, kind, is_union, default, item.metadata["param"]))
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """Every parameter, JSON-ready."""
        values = {spec.name: getattr(self, spec.name) for spec in self.fields()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def check(self) -> None:
        """Refuse combinations that cannot exist; raises QuantizerConfigError."""

    def inactive(self) -> dict[str, str]:
        """Parameters without effect as set now -> the reason in words, naming the other."""
        return {}


def _checked(spec: Field, value: Any) -> Any:
    """``value`` in the field's type and range, or QuantizerConfigError."""
    if value is None and spec.optional:
        return None
    wants = _wants(spec)

    def refuse() -> QuantizerConfigError:
        return QuantizerConfigError(spec.name, f"{spec.name} must be {wants}, not {value!r}.")

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
    return text + (" or None" if spec.optional else "")
