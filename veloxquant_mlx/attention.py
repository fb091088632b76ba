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
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.models import base as mlx_lm_base
from mlx_lm.models.cache import make_prompt_cache

from . import families
from .cache.base import PendingRows
from .cache.mixed import compressed_caches
from .config import KVCacheConfig

NAME = "scaled_dot_product_attention"

_users: Counter[str] = Counter()
"""Module name -> models whose attention was replaced there."""
_enabled: dict[int, tuple[str, ...]] = {}
"""id of a model -> names of its modules."""


class _Refusal(NamedTuple):
    words: str
    unfit: bool = False
    """True when not even decoded rows will do."""


_refused: dict[int, _Refusal] = {}
"""id of a model -> why its attention was left alone."""


def enable(model: Any) -> str | None:
    """Let a model attend on codes. Returns None, or the reason in words why its rows are decoded instead.

    A short run over a few tokens proves it, and before that, that the model runs through a compressed
    cache at all: the logits must agree with those of decoded rows. ``disable`` undoes it; a model that is
    garbage-collected is undone by itself.
    """
    if is_enabled(model):
        return None
    if id(model) not in _refused:
        problem = _try(model)
        if problem is None:
            return None
        _refused[id(model)] = problem
        weakref.finalize(model, _refused.pop, id(model), None)
    return _refused[id(model)].words


def _try(model: Any) -> "_Refusal | None":
    """Put attention on codes into a model and prove it; otherwise leave no trace and say why."""
    caches = _probing_caches(model)
    if not any(True for _ in compressed_caches(caches)):
        return _Refusal(reads_rows(model) or "none of its slots is compressed")
    decoded = _probe(model, caches)
    if isinstance(decoded, Exception):
        return _Refusal("the model does not run through a compressed cache", unfit=True)
    problem = reads_rows(model)
    if problem:
        return _Refusal(problem)
    modules = _common(model)
    for module in modules:
        setattr(module, NAME, _attention)
    names = tuple(module.__name__ for module in modules)
    _users.update(names)
    _enabled[id(model)] = names
    weakref.finalize(model, _release, id(model))
    coded = _probe(model, _probing_caches(model))
    if isinstance(coded, Exception):
        problem = f"its attention needs the rows themselves ({type(coded).__name__})"
    elif (mx.abs(decoded - coded).max() > 0.02 * mx.abs(decoded).max()).item():
        problem = "its results on codes differ from those on decoded rows"
    else:
        return None
    disable(model)
    return _Refusal(problem)


def reason(model: Any) -> str | None:
    """Why ``enable`` refused, in words; None where it did not or was not asked."""
    refused = _refused.get(id(model))
    return refused.words if refused else None


def unfit(model: Any) -> str | None:
    """Why no slot of this model may be compressed, as the run of ``enable`` found out; else None."""
    refused = _refused.get(id(model))
    return refused.words if refused and refused.unfit else None


def reads_rows(model: Any) -> str | None:
    """Why a model's attention needs the rows themselves, in words, as far as its files tell."""
    known = families.reads_rows(model, len(make_prompt_cache(model)))
    return known or (None if _common(model) else "it does not use mlx_lm's common attention")


def _common(model: Any) -> list[ModuleType]:
    """The model's files that hold mlx_lm's common attention, replaced or not."""
    ours = (mlx_lm_base.scaled_dot_product_attention, _attention)
    return [module for module in attention_modules(model) if getattr(module, NAME) in ours]


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


def _probing_caches(model: Any) -> list[Any]:
    from .builder import KVCacheBuilder

    # Eight bits: with fewer, a difference in the last place of a row can choose another code.
    told: dict[str, Any] = {"skvq_window": 8, "skvq_n_sink": 1, "skvq_bits_key": 8, "skvq_bits_value": 8}
    return KVCacheBuilder.for_model(model, KVCacheConfig("skvq", **told))


def _probe(model: Any, caches: list[Any]) -> mx.array | Exception:
    """Logits after a block that flushes and one step, float32 [V], or what the model raised."""
    try:
        model(mx.arange(9)[None], cache=caches)
        logits = model(mx.array([[9]]), cache=caches)[0, -1].astype(mx.float32)
        mx.eval(logits)
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        return error
    return logits
