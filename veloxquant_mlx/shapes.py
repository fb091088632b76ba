"""The shape of each slot's rows, found by writing down one step of the model without computing it."""

import weakref
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from .config import SlotShape

_known: dict[int, tuple[SlotShape | None, ...]] = {}
"""id of a model -> its shapes."""


def slot_shapes(model: Any) -> tuple[SlotShape | None, ...]:
    """Shape of the rows in every slot of the model's own cache list.

    None where a slot keeps no rows or where a step of the model can't be written down. MLX computes
    nothing until it is asked to, so this takes milliseconds, whatever the model's size.
    """
    if id(model) not in _known:
        slots = make_prompt_cache(model)
        try:
            model(mx.array([[0]]), cache=slots)
        except (TypeError, AttributeError, ValueError, RuntimeError):
            # A broken model says so when it is used; here its shapes are only unknown.
            slots = [None] * len(slots)
        _known[id(model)] = tuple(_shape(slot) for slot in slots)
        weakref.finalize(model, _known.pop, id(model), None)
    return _known[id(model)]


def _shape(slot: Any) -> SlotShape | None:
    for cache in getattr(slot, "caches", (slot,)):
        keys, values = getattr(cache, "keys", None), getattr(cache, "values", None)
        if isinstance(keys, mx.array) and isinstance(values, mx.array):
            return SlotShape(keys.shape[1], keys.shape[3], values.shape[3])
    return None
