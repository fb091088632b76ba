"""What grows in each slot, found by writing down one step of the model without computing it."""

import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from .config import SlotShape
from .layout import Growth

_FURTHER = 33
"""Tokens of the second step that tells how a cache of a kind nobody knows grows."""


@dataclass(frozen=True, slots=True)
class SlotProbe:
    """What one step left in a slot; everything None or empty where it can't be written down."""

    shape: SlotShape | None = None
    """Of the first keys and values in it."""
    whole: tuple[Growth, ...] | None = None
    beside: tuple[Growth, ...] = ()
    """Of what is no plain KV cache."""


_known: dict[int, tuple[SlotProbe, ...]] = {}
"""id of a model -> its slots."""


def probe(model: Any) -> tuple[SlotProbe, ...]:
    """Every slot of the model's own cache list after one step of it.

    MLX computes nothing until it is asked to, so this takes milliseconds, whatever the model's size.
    """
    if id(model) not in _known:
        _known[id(model)] = _probed(model)
        weakref.finalize(model, _known.pop, id(model), None)
    return _known[id(model)]


def slot_shapes(model: Any) -> tuple[SlotShape | None, ...]:
    """Shape of the rows in every slot; None where a slot keeps no rows or nobody can tell."""
    return tuple(slot.shape for slot in probe(model))


def kv_shapes(model: Any) -> list[SlotShape]:
    """Those of the slots that keep rows."""
    return [shape for shape in slot_shapes(model) if shape is not None]


def common_float(model: Any) -> mx.Dtype | None:
    """Type of most floating arrays of a model, by far most often the type activations have."""
    arrays = [array for _, array in tree_flatten(model.parameters())]
    names = Counter(array.dtype for array in arrays if mx.issubdtype(array.dtype, mx.floating))
    return max(names, key=lambda dtype: names[dtype]) if names else None


def _probed(model: Any) -> tuple[SlotProbe, ...]:
    slots = _after(model, 1)
    if slots is None:
        return (SlotProbe(),) * len(make_prompt_cache(model))
    number = common_float(model)
    odd = any(not isinstance(cache, _UNDERSTOOD) for slot in slots for cache in _inside(slot))
    further = _after(model, _FURTHER) if odd else slots
    return tuple(
        _slot(slot, later, number) for slot, later in zip(slots, further or [None] * len(slots), strict=True)
    )


def _after(model: Any, tokens: int) -> list[Any] | None:
    """A fresh cache list that has read so many tokens; None where that can't be written down."""
    slots = make_prompt_cache(model)
    try:
        model(mx.zeros((1, tokens), mx.int32), cache=slots)
    except (TypeError, AttributeError, ValueError, RuntimeError):
        # A broken model says so when it is used; here its shapes are only unknown.
        return None
    return slots


def _slot(slot: Any, later: Any, number: mx.Dtype | None) -> SlotProbe:
    caches = _inside(slot)
    lasts = _inside(later) if later is not None else [None] * len(caches)
    growths = [_growth(cache, last, number) for cache, last in zip(caches, lasts, strict=True)]
    shape = next((found for cache in caches if (found := _shape(cache)) is not None), None)
    if any(growth is None for growth in growths):
        return SlotProbe(shape)
    known = [growth for growth in growths if growth is not None]
    beside = [growth for cache, growth in zip(caches, known, strict=True) if type(cache) is not KVCache]
    return SlotProbe(shape, tuple(known), tuple(beside))


def _inside(slot: Any) -> list[Any]:
    return list(getattr(slot, "caches", (slot,)))


def _shape(cache: Any) -> SlotShape | None:
    keys, values = getattr(cache, "keys", None), getattr(cache, "values", None)
    if isinstance(keys, mx.array) and isinstance(values, mx.array):
        return SlotShape(keys.shape[1], keys.shape[3], values.shape[3])
    return None


_UNDERSTOOD = (KVCache, RotatingKVCache, ChunkedKVCache, ArraysCache)


def _growth(cache: Any, later: Any, number: mx.Dtype | None) -> Growth | None:
    shape = _shape(cache)
    if shape is None and isinstance(cache, KVCache | RotatingKVCache | ChunkedKVCache):
        # The model made it and never wrote into it.
        return Growth()
    if isinstance(cache, (KVCache, RotatingKVCache, ChunkedKVCache)) and shape is not None:
        most = getattr(cache, "max_size", None) or getattr(cache, "chunk_size", None)
        return Growth(shape.heads * (shape.key_dim + shape.value_dim), most)
    if isinstance(cache, _UNDERSTOOD):
        return Growth(0, None, *_held(cache, number))
    if later is None:
        return None
    (first, own), (last, _) = _held(cache, number), _held(later, number)
    per_token = max(0, last - first) // (_FURTHER - 1)
    return Growth(per_token, None, first - per_token, own)


def _held(cache: Any, number: mx.Dtype | None) -> tuple[int, int]:
    """Numbers in the model's own type, and bytes of everything else."""
    arrays = [array for _, array in tree_flatten(cache.state) if isinstance(array, mx.array)]
    ours = sum(array.size for array in arrays if array.dtype == number)
    return ours, sum(array.nbytes for array in arrays if array.dtype != number)
