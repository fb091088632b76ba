"""KV caches for MLX models whose bytes are what memory holds.

config = KVCacheConfig(method="skvq", skvq_bits_key=3)
cache = KVCacheBuilder.for_model(model, config)
mlx_lm.generate(model, tokenizer, prompt, prompt_cache=cache)
"""

from typing import TYPE_CHECKING, Any

from .config import KVCacheConfig, methods
from .errors import CacheError, Cancelled, ModelError, QuantizerConfigError, StorageError, VeloxQuantError
from .telemetry import ByteCount, CacheSnapshot, LayerStats

if TYPE_CHECKING:
    from .builder import KVCacheBuilder
    from .cache.slot import snapshot

__all__ = [
    "ByteCount",
    "CacheError",
    "CacheSnapshot",
    "Cancelled",
    "KVCacheBuilder",
    "KVCacheConfig",
    "LayerStats",
    "ModelError",
    "QuantizerConfigError",
    "StorageError",
    "VeloxQuantError",
    "methods",
    "snapshot",
]


def __getattr__(name: str) -> Any:
    # These two import mlx_lm, which takes most of a second: only when they are asked for.
    if name == "KVCacheBuilder":
        from .builder import KVCacheBuilder

        return KVCacheBuilder
    if name == "snapshot":
        from .cache.slot import snapshot

        return snapshot
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
