"""The queries a model's attention layers ask, without a change to the model that lasts."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from ..attention import NAME, attention_modules
from ..cache.mixed import own_cache


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One attention call of one slot."""

    queries: mx.array
    """[B, H_query, S, D_key]."""
    scale: float
    mask: Any
    """None, "causal", or an array that broadcasts to [B, H_query, S, rows]."""
    sinks: mx.array | None
    """Learned sink logits, one a head."""
    key_shape: tuple[int, ...]
    value_shape: tuple[int, ...]


EARLY = 512
"""Tokens at the start whose queries count for methods that learn from them before they compress."""
_EVERY = 8
"""Of so many of them one is kept: a basis fitted with those alone errs within 2 % of one that saw all."""


def capture_queries(model: Any, caches: Sequence[Any], tokens: mx.array) -> Mapping[int, Query]:
    """Run the model over ``tokens`` [1, S] once and return the first attention call of every slot.

    ``caches`` stay as they are: the run works on copies. Slots whose family computes its attention
    without mlx_lm's ``scaled_dot_product_attention`` are missing from the result.
    """
    copies = copy.deepcopy(list(caches))
    with recording(model, copies) as found:
        model(tokens, cache=copies)
        mx.eval(arrays_of(found))
    return found


def arrays_of(found: Mapping[int, Query]) -> list[mx.array]:
    """The arrays of recorded queries, to be evaluated with the pass that asked them."""
    masks = [query.mask for query in found.values() if isinstance(query.mask, mx.array)]
    return [query.queries for query in found.values()] + masks


@contextmanager
def recording(model: Any, caches: Sequence[Any]) -> Iterator[dict[int, Query]]:
    """Note the first attention call of every slot of ``caches`` made inside the block, by slot."""
    found: dict[int, Query] = {}
    slots = {id(own_cache(cache) or cache): slot for slot, cache in enumerate(caches)}

    def recorded(original: Callable[..., mx.array]) -> Callable[..., mx.array]:
        def attend(
            queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, sinks: Any = None,
            **more: Any,
        ) -> mx.array:  # fmt: skip
            slot = slots.get(id(cache))
            if slot is not None and slot not in found and isinstance(keys, mx.array):
                found[slot] = Query(queries, scale, mask, sinks, keys.shape, values.shape)
            return original(queries, keys, values, cache, scale=scale, mask=mask, sinks=sinks, **more)

        return attend

    before = [(module, getattr(module, NAME)) for module in attention_modules(model)]
    try:
        for module, original in before:
            setattr(module, NAME, recorded(original))
        yield found
    finally:
        for module, original in before:
            setattr(module, NAME, original)


@contextmanager
def seeing(model: Any, caches: Sequence[Any], begin: int, seen: dict[int, mx.array]) -> Iterator[None]:
    """Add a sample of the queries asked inside the block to ``seen``, by slot, [B, H_query, n, D].

    The block is one pass of the model from the token ``begin`` on; only EARLY ones count.
    """
    if begin >= EARLY:
        yield
        return
    with recording(model, caches) as found:
        yield
    for slot, query in found.items():
        held = [seen[slot]] if slot in seen else []
        fresh = query.queries[:, :, _EVERY - 1 :: _EVERY]
        if fresh.shape[2]:
            # A view would keep all of them.
            seen[slot] = mx.contiguous(mx.concatenate([*held, fresh], axis=2))
    mx.eval(list(seen.values()))
