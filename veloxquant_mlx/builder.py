"""Which slots of a model's cache list a method replaces, and why it leaves the others."""

from typing import Any, NamedTuple

from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from . import attention, families
from .cache.mixed import MixedCache, compressed_caches
from .config import KVCacheConfig, SlotShape
from .rotary import rotary_of
from .shapes import slot_shapes
from .steps import Plan, SlotPlan


class KVCacheBuilder:
    """Makes the cache list that mlx_lm's ``prompt_cache`` argument takes."""

    @staticmethod
    def for_model(model: Any, config: KVCacheConfig) -> list[Any]:
        """A fresh list, one entry per slot of the model's own, with the plan's slots replaced.

        Args:
            model: an mlx_lm model. config: what the replaced slots are told.
        """
        slots = make_prompt_cache(model)
        plan = _plan(model, slots, config)
        caches = [
            _replaced(slot, item.slot, config) if item.replaced else slot
            for item, slot in zip(plan.slots, slots, strict=True)
        ]
        for cache in compressed_caches(caches):
            cache.on_codes = attention.is_enabled(model)
            cache.rotary = rotary_of(model, cache.slot, len(slots))
        return caches

    @staticmethod
    def plan(model: Any, config: KVCacheConfig) -> Plan:
        """What ``for_model`` will do, slot by slot."""
        return _plan(model, make_prompt_cache(model), config)


class _Model(NamedTuple):
    """What the decisions ask about a model."""

    lists: bool
    """Its CacheLists may be looked into."""
    latents: bool
    meaning: str | None
    reads_rows: str | None
    unfit: str | None

    @classmethod
    def of(cls, model: Any) -> "_Model":
        return cls(
            families.keeps_ordinary_lists(model),
            families.keeps_latents(model),
            families.other_meaning(model),
            attention.reads_rows(model),
            attention.unfit(model),
        )


def _plan(model: Any, slots: list[Any], config: KVCacheConfig) -> Plan:
    known = _Model.of(model)
    decided = []
    for index, (slot, shape) in enumerate(zip(slots, slot_shapes(model), strict=True)):
        reason = _not_replaceable(slot, known.lists) or _not_compressible(shape, known, config)
        if reason is None:
            decided.append(
                SlotPlan(index, True, *_alike(f"keys and values to {config.label}", "hand", "hands"))
            )
        else:
            decided.append(SlotPlan(index, False, *reason))
    return Plan(tuple(decided), config.compresses, attention.reason(model) if config.gives_rows else None)


_Words = tuple[str, str]
"""What one slot does, and what several do."""


def plain_slots(model: Any) -> int:
    """How many slots of the model's cache list hold a plain KV cache, by itself or beside a state."""
    lists = families.keeps_ordinary_lists(model)
    return sum(_not_replaceable(slot, lists) is None for slot in make_prompt_cache(model))


def _not_replaceable(slot: Any, lists: bool) -> _Words | None:
    """Why a slot stays as the model made it, whatever the method; None when it may be replaced.

    Args:
        lists: the model's CacheLists may be looked into.
    """
    # Subclasses mean something else by their rows, so only the exact type is ours to replace.
    if type(slot) is CacheList and lists:
        if any(type(cache) is KVCache for cache in slot.caches):
            return None
        slot = next(cache for cache in slot.caches if not isinstance(cache, ArraysCache))
    if isinstance(slot, RotatingKVCache):
        window = f"a {slot.max_size:,}-token window"
        return f"keeps {window} of its own", f"keep {window} of their own"
    if isinstance(slot, ChunkedKVCache):
        chunks = f"chunks of {slot.chunk_size:,} tokens"
        return f"keeps {chunks} of its own", f"keep {chunks} of their own"
    if isinstance(slot, ArraysCache):
        return _alike("a recurrent state, not keys and values", "keep", "keeps")
    if isinstance(slot, CacheList):
        return _alike("several caches that work together", "hold", "holds")
    if type(slot) is not KVCache:
        return _alike(f"a cache of the model's own kind ({type(slot).__name__})", "hold", "holds")
    return None


def _not_compressible(shape: SlotShape | None, model: _Model, config: KVCacheConfig) -> _Words | None:
    """Why a slot that may be replaced is left by a method that compresses."""
    if not config.compresses:
        return None
    if model.latents:
        return _alike("latents, compressed already", "hold", "holds")
    if model.meaning:
        return _alike(f"rows that {model.meaning}", "hold", "holds")
    if model.unfit:
        return f"stays as it was: {model.unfit}", f"stay as they were: {model.unfit}"
    if model.reads_rows and not config.gives_rows:
        return _alike(f"take packed rows: {model.reads_rows}", "can't", "can't")
    problem = None if shape is None else config.misfit(shape)
    return None if problem is None else _alike(problem, "have", "has")


def _alike(what: str, many: str, one: str) -> _Words:
    return f"{one} {what}", f"{many} {what}"


def _replaced(slot: Any, index: int, config: KVCacheConfig) -> Any:
    if isinstance(slot, CacheList):
        caches = (config.make_cache(index) if type(cache) is KVCache else cache for cache in slot.caches)
        return MixedCache(*caches)
    return config.make_cache(index)
