"""What a cache can be told, declared once.

A method is a frozen dataclass: the class describes it, its fields are the parameters, an instance
is one configuration. Range, step, unit and words stand in the field itself; validation, the
studio's sliders, the command line's flags and the report all read them there.
"""

import dataclasses
import difflib
import importlib
import pkgutil
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .declared import Declared, Field, param
from .errors import QuantizerConfigError
from .telemetry import ByteCount

if TYPE_CHECKING:
    from .cache.slot import SlotCache


DEFAULT_METHOD = "skvq"
"""What a person gets who has not chosen yet."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number a method reports while it runs."""

    label: str
    help: str
    unit: str = ""
    always: bool = True
    """False for what nobody knows before rows were flushed; it is left out until then."""


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The shape of one cache slot, enough to predict its bytes."""

    heads: int
    key_dim: int
    value_dim: int
    batch: int = 1
    width: int = 2
    """Bytes of one number of the model's own rows: 4 where it computes in float32."""

    def at(self, width: int) -> "SlotShape":
        """The same rows in another precision of the model."""
        return dataclasses.replace(self, width=width)


@dataclass(frozen=True)
class KVCacheConfig(Declared):
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
    compresses: ClassVar[bool] = True
    """False for the method whose rows stay as the model made them."""
    gives_rows: ClassVar[bool] = True
    """False when attention is handed packed codes, which only mlx_lm's common attention can read."""

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
        super().__post_init__()

    @classmethod
    def key(cls) -> str:
        """Name of the method: its file's name without ``_cache``."""
        return cls.__module__.rpartition(".")[2].removesuffix("_cache")

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The parameters in declared order, ``head_dim`` last."""
        return tuple(sorted(super().fields(), key=lambda f: f.name == "head_dim"))

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
        return {"method": self.method} | super().as_dict()

    def misfit(self, shape: SlotShape) -> str | None:
        """What about rows of this shape can't be stored, after "it has", and what to do; else None."""
        return None

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
