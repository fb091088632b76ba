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

from . import attention
from .cache.base import CompressedKVCache
from .config import KVCacheConfig
from .steps import Plan, SlotPlan

_LEFT_ALONE: tuple[tuple[type, str], ...] = (
    (RotatingKVCache, "a sliding window of its own"),
    (ChunkedKVCache, "a chunked window of its own"),
    (ArraysCache, "recurrent state, not keys and values"),
    (CacheList, "several caches in one slot"),
)


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
            config.make_cache(item.slot) if item.replaced else slot
            for item, slot in zip(plan.slots, slots, strict=True)
        ]
        for cache in caches:
            if isinstance(cache, CompressedKVCache):
                cache.on_codes = attention.is_enabled(model)
        return caches

    @staticmethod
    def plan(model: Any, config: KVCacheConfig) -> Plan:
        """What ``for_model`` will do, slot by slot."""
        return _plan(model, make_prompt_cache(model), config)


def _plan(model: Any, slots: list[Any], config: KVCacheConfig) -> Plan:
    family = type(model).__module__.rpartition(".")[2]
    latent = family.startswith(attention.LATENT_FAMILIES)
    return Plan(tuple(_decide(index, slot, latent, config) for index, slot in enumerate(slots)))


def _decide(index: int, slot: Any, latent: bool, config: KVCacheConfig) -> SlotPlan:
    # Subclasses mean something else by their rows, so only the exact type is ours to replace.
    if type(slot) is not KVCache:
        known = next((why for kind, why in _LEFT_ALONE if isinstance(slot, kind)), None)
        return SlotPlan(index, False, known or f"a cache of the model's own ({type(slot).__name__})")
    if latent and config.method != "plain":
        return SlotPlan(index, False, "latent attention, whose rows are compressed already")
    return SlotPlan(index, True, f"keys and values go to {config.label}")
