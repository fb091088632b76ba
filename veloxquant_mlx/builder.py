"""Which slots of a model's cache list a method replaces, and why it leaves the others."""

from typing import Any

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
from .config import KVCacheConfig
from .layout import Layout, SlotLayout, Words, alike
from .rotary import rotary_of
from .shapes import probe
from .steps import Plan


class KVCacheBuilder:
    """Makes the cache list that mlx_lm's ``prompt_cache`` argument takes."""

    @staticmethod
    def for_model(model: Any, config: KVCacheConfig) -> list[Any]:
        """A fresh list, one entry per slot of the model's own, with the plan's slots replaced.

        Args:
            model: an mlx_lm model. config: what the replaced slots are told.
        """
        slots = make_prompt_cache(model)
        plan = KVCacheBuilder.plan(model, config)
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
        return layout_of(model).plan(config, attention.reason(model) if config.gives_rows else None)


def layout_of(model: Any) -> Layout:
    """The model's cache list as plain numbers, and what decides over its compression."""
    lists = families.keeps_ordinary_lists(model)
    made = zip(make_prompt_cache(model), probe(model), strict=True)
    return Layout(
        tuple(
            SlotLayout(_not_replaceable(slot, lists), found.shape, found.whole, found.beside)
            for slot, found in made
        ),
        families.keeps_latents(model),
        families.other_meaning(model),
        attention.reads_rows(model),
        attention.unfit(model),
    )


def _not_replaceable(slot: Any, lists: bool) -> Words | None:
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
        return alike("a recurrent state, not keys and values", "keep", "keeps")
    if isinstance(slot, CacheList):
        return alike("several caches that work together", "hold", "holds")
    if type(slot) is not KVCache:
        return alike(f"a cache of the model's own kind ({type(slot).__name__})", "hold", "holds")
    return None


def _replaced(slot: Any, index: int, config: KVCacheConfig) -> Any:
    if isinstance(slot, CacheList):
        caches = (config.make_cache(index) if type(cache) is KVCache else cache for cache in slot.caches)
        return MixedCache(*caches)
    return config.make_cache(index)
