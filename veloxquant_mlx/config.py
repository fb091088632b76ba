"""What a cache can be told, declared once.

A method is a frozen dataclass: the class describes it, its fields are the parameters, an instance
is one configuration. Range, step, unit and words stand in the field itself; validation, the
studio's sliders, the command line's flags and the report all read them there.
"""

import dataclasses
import difflib
import importlib
import math
import pkgutil
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .errors import QuantizerConfigError
from .telemetry import ByteCount

if TYPE_CHECKING:
    from .cache.slot import SlotCache


DEFAULT_METHOD = "skvq"
"""What a person gets who has not chosen yet."""


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


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number a method reports while it runs."""

    label: str
    help: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The shape of one cache slot, enough to predict its bytes."""

    heads: int
    key_dim: int
    value_dim: int
    batch: int = 1


def param(default: Any, *, label: str, help: str, **words: Any) -> Any:
    """Declare a method's parameter: a dataclass field that carries its Param."""
    return field(default=default, metadata={"param": Param(label=label, help=help, **words)})


@dataclass(frozen=True)
class KVCacheConfig:
    """Configuration of a KV cache, and the one way to make it by name.

    ``KVCacheConfig(method="skvq", head_dim=64, skvq_bits_key=2)`` gives an instance of the class
    that declares the method. Unknown methods and fields are refused with the nearest known names.

    Raises QuantizerConfigError; its ``field`` names the parameter.
    """

    label: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    gauges: ClassVar[Mapping[str, Gauge]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Preset name -> the fields it sets away from their defaults, best first choice first."""

    method: str = ""
    head_dim: int | None = param(
        None, label="Head size", unit="channels", low=1, high=4096, step=1, shown=False,
        help="Channels of one key head. Left empty it is learnt from the first keys.",
    )  # fmt: skip

    if TYPE_CHECKING:
        # The fields depend on the method, so the base class takes any; the dataclasses know their own.
        def __init__(self, method: str = "", **values: Any) -> None: ...

    def __new__(cls, method: str = "", **values: Any) -> Self:
        target = method_class(method) if cls is KVCacheConfig else cls
        known = [f.name for f in dataclasses.fields(target)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or known[1:4]
                raise QuantizerConfigError(
                    name,
                    f"{target.key()} has no parameter '{name}'; nearest are {', '.join(near)}.",
                )
        return typing.cast(Self, object.__new__(target))

    def __post_init__(self) -> None:
        if self.method not in ("", self.key()):
            raise QuantizerConfigError("method", f"{type(self).__name__} is method '{self.key()}'.")
        object.__setattr__(self, "method", self.key())
        for spec in self.fields():
            object.__setattr__(self, spec.name, _checked(spec, getattr(self, spec.name)))
        self.check()

    @classmethod
    def key(cls) -> str:
        """Name of the method: its file's name without ``_cache``."""
        return cls.__module__.rpartition(".")[2].removesuffix("_cache")

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The parameters in declared order, ``head_dim`` last."""
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
        return tuple(sorted(found, key=lambda f: f.name == "head_dim"))

    @classmethod
    def preset(cls, name: str) -> Self:
        """The configuration a preset stands for. Raises QuantizerConfigError for an unknown name."""
        if name not in cls.presets:
            raise QuantizerConfigError("preset", f"{cls.label} has presets {', '.join(cls.presets)}.")
        return cls(**cls.presets[name])

    def preset_name(self) -> str | None:
        """Name of the preset this configuration equals, head size aside, or None."""
        plain = dataclasses.replace(self, head_dim=None)
        return next((name for name in self.presets if type(self).preset(name) == plain), None)

    def as_dict(self) -> dict[str, Any]:
        """``method`` and every parameter, JSON-ready."""
        values = {spec.name: getattr(self, spec.name) for spec in self.fields()}
        return {"method": self.method} | {
            k: list(v) if isinstance(v, tuple) else v for k, v in values.items()
        }

    def check(self) -> None:
        """Refuse combinations that cannot exist. Overridden by methods; raises QuantizerConfigError."""

    def inactive(self) -> dict[str, str]:
        """Parameters without effect in this configuration -> the reason in words, naming the other."""
        return {}

    def make_cache(self, slot: int) -> "SlotCache":
        """A fresh, empty cache for one slot of a model's cache list."""
        raise NotImplementedError

    def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
        """Bytes one slot will take at ``tokens`` tokens, in closed form (predicted, no model)."""
        raise NotImplementedError


def methods() -> dict[str, type[KVCacheConfig]]:
    """The catalogue: every ``NAME_cache.py`` in the cache folder -> the class it declares."""
    from . import cache

    names = sorted(m.name for m in pkgutil.iter_modules(cache.__path__) if m.name.endswith("_cache"))
    found: dict[str, type[KVCacheConfig]] = {}
    for name in names:
        module = importlib.import_module(f"{cache.__name__}.{name}")
        for value in vars(module).values():
            is_config = isinstance(value, type) and issubclass(value, KVCacheConfig)
            if is_config and value.__module__ == module.__name__:
                found[value.key()] = value
    return found


def method_class(name: str) -> type[KVCacheConfig]:
    """The class that declares a method. Raises QuantizerConfigError naming the known ones."""
    known = methods()
    if name not in known:
        raise QuantizerConfigError("method", f"There is no method '{name}'; known are {', '.join(known)}.")
    return known[name]


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
