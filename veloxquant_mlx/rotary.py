"""The rotary embedding of each slot, found in the model, for methods that foresee where keys will lie."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

Rotary = Callable[[mx.array, int], mx.array]
"""Rows [B, H, S, D] that begin at an offset -> the same rows turned to their positions."""

_GOLDEN = 0.6180339887498949
"""Multiples of it fill an interval evenly and in step with no rotation's period."""


def rotary_of(model: Any, slot: int, slots: int) -> Rotary | None:
    """The rotary embedding that the layer behind a slot applies to its keys, or None.

    Args:
        slots: length of the model's cache list; where layers share slots or have none, nobody can tell
            which layer a slot belongs to.
    """
    layers = getattr(model, "layers", ())
    if len(layers) != slots or not isinstance(layers[slot], nn.Module):
        return None
    for part in layers[slot].modules():
        rope = part.get("rope")
        # Where only a part of the key is turned by itself, a whole row is not what the embedding takes.
        if isinstance(rope, nn.Module) and not hasattr(part, "qk_rope_head_dim"):
            # A function, and of this module alone: it is not copied with a cache and keeps no model alive.
            return lambda rows, offset, rope=rope: rope(rows, offset=offset)  # type: ignore[misc]
    return None


def turns(rotary: Rotary, dim: int, ahead: int, count: int) -> mx.array | None:
    """``count`` rotations [count, D, D] to positions up to ``ahead``, spread evenly.

    A row ``k`` lies at ``k @ turn`` so many positions later. None when the embedding does not take keys of
    ``dim`` channels, or does more than turn them.
    """
    unit = mx.eye(dim).reshape(1, dim, 1, dim)
    try:
        turned = [rotary(unit, int(ahead * (index * _GOLDEN % 1))) for index in range(count)]
        found = mx.concatenate(turned).reshape(count, dim, dim)
        is_rotation = mx.allclose(found @ found.swapaxes(-1, -2), mx.eye(dim), atol=1e-3).item()
    except (TypeError, ValueError, RuntimeError):
        return None
    return found if is_rotation else None
