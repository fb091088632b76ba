"""The rotary embedding of each slot, found in the model, for methods that foresee where keys will lie."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

Rotary = Callable[[mx.array, int | mx.array], mx.array]
"""Rows [B, H, S, D] and the offset they begin at -> the same rows turned to their positions. Many embeddings
take an offset for each batch row, too."""

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
    for part in _modules(layers[slot]):
        rope = part.get("rope")
        # Where only a part of the key is turned by itself, a whole row is not what the embedding takes.
        if isinstance(rope, nn.Module) and not hasattr(part, "qk_rope_head_dim"):
            # A function, and of this module alone: it is not copied with a cache and keeps no model alive.
            return lambda rows, offset, rope=rope: rope(rows, offset=offset)  # type: ignore[misc]
    return None


def _modules(part: Any) -> Iterator[nn.Module]:
    """A module and all within it, one by one: mlx's own list of them looks at every weight first."""
    if isinstance(part, nn.Module):
        yield part
    # Modules are dictionaries, too.
    for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _modules(child)


def turns(rotary: Rotary, dim: int, ahead: int, count: int) -> mx.array | None:
    """``count`` rotations [count, D, D] to positions up to ``ahead``, spread evenly.

    A row ``k`` lies at ``k @ turn`` so many positions later. None when the embedding does not take keys of
    ``dim`` channels, or does more than turn them.
    """
    if not _shared:
        return _turns(rotary, dim, ahead, count)
    try:
        row = rotary(mx.ones((1, 1, 1, dim)), ahead).astype(mx.float32)
    except (TypeError, ValueError, RuntimeError):
        return None
    # Layers mostly share one embedding, or two; where one turns a row tells which it is.
    asked, known = (np.array(row).tobytes(), dim, ahead, count), _shared[-1]
    if asked not in known:
        known[asked] = _turns(rotary, dim, ahead, count)
    return known[asked]


@contextlib.contextmanager
def shared_turns() -> Iterator[None]:
    """Within the block, layers that are turned alike share what ``turns`` finds; nothing is held after it."""
    own: dict[tuple[bytes, int, int, int], mx.array | None] = {}
    _shared.append(own)
    try:
        yield
    finally:
        # Blocks of generators may end in any order.
        _shared[:] = [one for one in _shared if one is not own]


_shared: list[dict[tuple[bytes, int, int, int], mx.array | None]] = []
"""What the open blocks found, by where an embedding turns a row to."""


def _turns(rotary: Rotary, dim: int, ahead: int, count: int) -> mx.array | None:
    positions = [int(ahead * (index * _GOLDEN % 1)) for index in range(count)]
    try:
        found = _turned_to(rotary, dim, positions)
        is_rotation = mx.allclose(found @ found.swapaxes(-1, -2), mx.eye(dim), atol=1e-3).item()
    except (TypeError, ValueError, RuntimeError):
        return None
    return found if is_rotation else None


def _turned_to(rotary: Rotary, dim: int, positions: list[int]) -> mx.array:
    """The unit rows turned to each of some positions, [n, D, D]."""
    unit = mx.eye(dim).reshape(1, dim, 1, dim)
    *others, last = positions
    # By itself, as every embedding takes it; it proves the others where it takes all positions at once.
    alone = rotary(unit, last).reshape(1, dim, dim)
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        units = mx.broadcast_to(unit, (len(positions), *unit.shape[1:]))
        found = rotary(units, mx.array(positions)).reshape(-1, dim, dim)
        if mx.allclose(found[-1:], alone, atol=1e-5).item():
            return found
    return mx.concatenate([*(rotary(unit, position).reshape(1, dim, dim) for position in others), alone])
