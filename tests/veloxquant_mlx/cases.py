"""Every method with every preset, and every family: what the contract is checked over.

Both come from catalogues: a new file of a method, or a new entry of tests/families.py, is covered by being
there.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import mlx.core as mx

from tests.tiny import tiny_model
from veloxquant_mlx import KVCacheBuilder, attention
from veloxquant_mlx.cache.mixed import own_cache
from veloxquant_mlx.cache.slot import SlotCache, held_arrays
from veloxquant_mlx.config import Field, KVCacheConfig, SlotShape, methods
from veloxquant_mlx.shapes import slot_shapes

PROMPT = 95
"""Tokens fed before a test begins: the next one fills a window of 16 or 32."""
_FEW = 16
"""Tokens that windows are shrunk to, so that a short prompt is flushed."""


def _shrunk(config: KVCacheConfig) -> KVCacheConfig:
    """The same setting with windows and groups of tokens that a hundred tokens fill."""
    changed = {
        field.name: least
        for field in config.fields()
        if field.param.unit == "tokens" and (least := _least(field, getattr(config, field.name))) is not None
    }
    return replace(config, **changed)


def _least(field: Field, value: Any) -> Any:
    if not value:
        return None
    if field.param.choices:
        return min(field.param.choices)
    return max(int(field.param.low or 1), min(value, _FEW))


SETTINGS: dict[str, KVCacheConfig] = {
    f"{key}:{name}" if name else key: _shrunk(declared.preset(name) if name else declared())
    for key, declared in methods().items()
    for name in (*declared.presets, *([] if declared.presets else [""]))
}
"""METHOD:PRESET, or METHOD where it has no preset, for windows of a few tokens."""


def fitting(config: KVCacheConfig, shape: SlotShape) -> KVCacheConfig:
    """The setting with the smallest groups where its own don't fit heads as small as these."""
    if config.misfit(shape) is None:
        return config
    smallest = {
        f.name: min(f.param.choices)
        for f in config.fields()
        if f.param.unit == "channels" and f.param.choices
    }
    return replace(config, **smallest)


@cache
def model_of(family: str) -> Any:
    """A tiny model that attends on codes where it can."""
    model = tiny_model(family)
    attention.enable(model)
    return model


@cache
def config_of(family: str, setting: str) -> KVCacheConfig:
    """The setting for the heads of a family."""
    config = SETTINGS[setting]
    for shape in slot_shapes(model_of(family)):
        config = config if shape is None else fitting(config, shape)
    return config


TOKENS = [(7 * place + place * place // 3) % 250 for place in range(PROMPT + 40)]


def feed(family: str, caches: list[Any], sizes: tuple[int, ...], start: int = 0) -> mx.array:
    """Feed TOKENS from ``start`` on in blocks of these sizes; the last logits, [V]."""
    model = model_of(family)
    logits = None
    for size in sizes:
        logits = model(mx.array(TOKENS[start : start + size])[None], cache=caches)[0, -1]
        mx.eval(logits, [slot.state for slot in caches])
        start += size
    assert logits is not None
    return logits


def fresh(family: str, setting: str) -> list[Any]:
    """An empty cache list."""
    return KVCacheBuilder.for_model(model_of(family), config_of(family, setting))


@cache
def fed(family: str, setting: str) -> list[Any]:
    """A cache list that read the prompt in uneven blocks. Work on a copy."""
    caches = fresh(family, setting)
    feed(family, caches, (33, 31, 1, 1, PROMPT - 66))
    return caches


def own(caches: list[Any]) -> list[Any]:
    """The caches of the method, those inside mixed slots too."""
    return [cache for slot in caches if (cache := own_cache(slot)) is not None]


def arrays(caches: list[Any]) -> list[mx.array]:
    """Every array of a list, slot by slot."""
    return [
        array
        for slot in caches
        for array in (slot.arrays() if isinstance(slot, SlotCache) else held_arrays(slot))
    ]


def same(first: list[mx.array], second: list[mx.array]) -> bool:
    """True when two lists of arrays are equal bit for bit."""
    return len(first) == len(second) and all(
        a.dtype == b.dtype and bool(mx.array_equal(a, b, equal_nan=True).item())
        for a, b in zip(first, second, strict=True)
    )
