"""How a slot's content passes through a file: arrays by name and plain facts, checked on the way back."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from ..errors import CacheError

Dump = tuple[dict[str, mx.array], dict[str, Any]]
"""Arrays by name, and the plain JSON-ready facts that go with them."""


def taken(arrays: Mapping[str, mx.array], name: str, shape: tuple[int, ...], *dtypes: mx.Dtype) -> mx.array:
    """The named array of a dump. Raises ValueError when it lacks or has another shape or type."""
    array = arrays.get(name)
    if array is None or array.dtype not in dtypes or array.shape != shape:
        raise ValueError(name)
    return array


def prefixed(prefix: str, arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """The arrays under ``PREFIX.NAME``."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Undo ``prefixed``; arrays of another prefix are left out."""
    start = prefix + "."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def whole(facts: Mapping[str, Any], name: str) -> int:
    """The named fact, a whole number of at least 0. Raises ValueError and KeyError."""
    value = facts[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(name)
    return value


def dump_attributes(slot: Any) -> Dump:
    """Every attribute of a cache of mlx_lm's, its buffers with their padding.

    Raises CacheError for a cache that holds something else than arrays, numbers, words and lists of them.
    """
    arrays: dict[str, mx.array] = {}
    return arrays, {name: _plain(slot, name, value, arrays) for name, value in vars(slot).items()}


def restore_attributes(slot: Any, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
    """Undo ``dump_attributes`` on an empty cache of the same class. Raises as ``SlotCache.restore``."""
    fresh = vars(slot)
    if fresh.keys() != facts.keys():
        raise ValueError("attributes")
    told = {name: _unplain(value, arrays) for name, value in facts.items()}
    for name, value in told.items():
        # What an empty cache knows, as the length of its window, is the model's and not the file's to say.
        if name not in _COUNTERS and isinstance(fresh[name], (int, float, str)) and fresh[name] != value:
            raise ValueError(name)
    fresh.update(told)


_COUNTERS = ("offset", "_idx", "start_position")
"""Plain attributes of mlx_lm's caches that change as rows come."""


def _plain(slot: Any, path: str, value: Any, arrays: dict[str, mx.array]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, mx.array):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, (list, tuple)):
        items = [_plain(slot, f"{path}.{index}", item, arrays) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    raise CacheError(f"A cache of this model's own ({type(slot).__name__}) can't be saved.")


def _unplain(value: Any, arrays: Mapping[str, mx.array]) -> Any:
    if isinstance(value, list):
        return [_unplain(item, arrays) for item in value]
    if isinstance(value, dict):
        return arrays[value["array"]] if "array" in value else tuple(_unplain(value["tuple"], arrays))
    return value
