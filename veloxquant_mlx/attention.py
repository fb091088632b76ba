"""Attention on codes, put into one model and taken out again.

mlx_lm's model files import ``scaled_dot_product_attention`` by name. ``enable`` replaces that name in
the files a model is made of by a function that asks the cache for the result when the cache offers
it, and does what it always did otherwise, so other models of the same family notice nothing.
"""

import contextlib
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import mlx.core as mx
from mlx_lm.models import base as mlx_lm_base

from .cache.base import CompressedKVCache, PendingRows
from .config import KVCacheConfig

NAME = "scaled_dot_product_attention"

_DENSE_ONLY = {
    "gpt_oss": "its attention has learned sinks",
    "mimo_v2_flash": "its attention has learned sinks",
    "gemma2": "it caps its attention scores",
    "gemma4": "its layers share keys and values",
    "gemma4_text": "its layers share keys and values",
    "gemma3n": "its layers share keys and values",
}
"""Families whose attention needs the rows themselves."""

LATENT_FAMILIES = ("deepseek_v3", "kimi", "glm4_moe_lite", "mistral4")
"""First letters of the families whose rows are latents, compressed already."""

_users: Counter[str] = Counter()
"""Module name -> models whose attention was replaced there."""
_enabled: dict[int, tuple[str, ...]] = {}
"""id of a model -> names of its modules."""


def enable(model: Any) -> str | None:
    """Let a model attend on codes. Returns None, or the reason in words why its rows are decoded instead.

    A short run over a few tokens proves it: the logits must agree with those of decoded rows.
    ``disable`` undoes it; a model that is garbage-collected is undone by itself.
    """
    if is_enabled(model):
        return None
    family = type(model).__module__.rpartition(".")[2]
    why = "its rows are latents" if family.startswith(LATENT_FAMILIES) else _DENSE_ONLY.get(family)
    if why:
        return f"attention on codes is off for {family}: {why}"
    ours = (mlx_lm_base.scaled_dot_product_attention, _attention)
    modules = [module for module in attention_modules(model) if getattr(module, NAME) in ours]
    if not modules:
        return f"attention on codes is off for {family}: it does not use mlx_lm's common attention"
    for module in modules:
        setattr(module, NAME, _attention)
    names = tuple(module.__name__ for module in modules)
    _users.update(names)
    _enabled[id(model)] = names
    weakref.finalize(model, _release, id(model))
    problem = _probe(model)
    if problem:
        disable(model)
        return f"attention on codes is off for {family}: {problem}"
    return None


def disable(model: Any) -> None:
    """Give a model its own attention back. Does nothing where it was not replaced."""
    _release(id(model))


def is_enabled(model: Any) -> bool:
    """True between ``enable`` and ``disable``."""
    return id(model) in _enabled


@contextlib.contextmanager
def attention_on_codes(model: Any) -> Iterator[str | None]:
    """``enable`` for the length of a block; gives the reason when the rows are decoded instead."""
    reason = enable(model)
    try:
        yield reason
    finally:
        disable(model)


def _release(key: int) -> None:
    for name in _enabled.pop(key, ()):
        _users[name] -= 1
        if not _users[name]:
            del _users[name]
            setattr(sys.modules[name], NAME, mlx_lm_base.scaled_dot_product_attention)


def attention_modules(model: Any) -> list[ModuleType]:
    """The model files of a model that hold an attention function under mlx_lm's name for it."""
    names = dict.fromkeys(type(part).__module__ for part in model.modules())
    found = (sys.modules[name] for name in names if name in sys.modules)
    return [module for module in found if hasattr(module, NAME)]


def _attention(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Any,
    scale: float,
    mask: Any = None,
    sinks: mx.array | None = None,
) -> mx.array:
    """mlx_lm's attention, with the rows of a cache that can attend by itself left where they are."""
    if isinstance(keys, PendingRows) and sinks is None:
        return keys.cache.attend(queries, scale, mask)
    if isinstance(keys, PendingRows):
        keys, values = keys.cache.end_call(queries.dtype)
    return mlx_lm_base.scaled_dot_product_attention(queries, keys, values, cache, scale, mask, sinks)


def _probe(model: Any) -> str | None:
    """Run a few tokens on decoded rows and on codes; the reason in words when they do not agree."""
    from .builder import KVCacheBuilder

    # Eight bits: with fewer, a difference in the last place of a row can choose another code.
    told: dict[str, Any] = {"skvq_window": 8, "skvq_n_sink": 1, "skvq_bits_key": 8, "skvq_bits_value": 8}
    config = KVCacheConfig("skvq", **told)
    results = []
    for on_codes in (False, True):
        caches = KVCacheBuilder.for_model(model, config)
        for cache in caches:
            if isinstance(cache, CompressedKVCache):
                cache.on_codes = on_codes
        try:
            model(mx.arange(9)[None], cache=caches)
            logits = model(mx.array([[9]]), cache=caches)[0, -1].astype(mx.float32)
            mx.eval(logits)
        except (TypeError, AttributeError, ValueError, RuntimeError) as error:
            if not on_codes:
                return "it does not run through a compressed cache"
            return f"its attention needs the rows themselves ({type(error).__name__})"
        results.append(logits)
    decoded, coded = results
    apart = mx.abs(decoded - coded).max() > 0.02 * mx.abs(decoded).max()
    return "its results on codes differ from those on decoded rows" if apart.item() else None
