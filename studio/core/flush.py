"""From which token on a configuration compresses, and how that is said."""

from veloxquant_mlx.config import KVCacheConfig, SlotShape

_FARTHEST = 1 << 20
"""Tokens up to which a first flush is looked for."""


def exact_tokens(config: KVCacheConfig, shape: SlotShape | None = None) -> int | None:
    """Tokens that stay exact before the first codes are written, or None when there never are any.

    Found in the method's own prediction, whose codes never shrink as tokens are added.
    """
    size = config.head_dim or 64
    shape = shape or SlotShape(heads=1, key_dim=size, value_dim=size)

    def coded(tokens: int) -> bool:
        return config.predict(tokens, shape).codes > 0

    if not coded(_FARTHEST):
        return None
    low, high = 0, _FARTHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if coded(middle) else (middle, high)
    return high


def waiting_words(config: KVCacheConfig, shape: SlotShape | None = None) -> str:
    """What a chart says while nothing is compressed, without a full stop."""
    tokens = exact_tokens(config, shape)
    if tokens is None:
        return f"{config.label} keeps every token as the model wrote it"
    if tokens == 1:
        return "Nothing compressed yet"
    return f"The first {tokens:,} tokens stay exact"
