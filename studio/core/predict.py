"""What a configuration will take, in closed form: no model is asked."""

from collections import Counter
from collections.abc import Mapping, Sequence

from veloxquant_mlx.config import KVCacheConfig, SlotShape
from veloxquant_mlx.telemetry import ByteCount


def predict_bytes(config: KVCacheConfig, shapes: Sequence[SlotShape], tokens: int) -> ByteCount:
    """Bytes of all slots at ``tokens`` tokens (predicted); all zero where the method can't tell."""
    return _sum(config, Counter(shapes), tokens)


def _sum(config: KVCacheConfig, shapes: Mapping[SlotShape, int], tokens: int) -> ByteCount:
    total = ByteCount()
    try:
        for shape, times in shapes.items():
            one = config.predict(tokens, shape)
            total = total + ByteCount(*(value * times for value in one.as_dict().values()))
    except (NotImplementedError, ValueError):
        return ByteCount()
    return total


def reference_bytes(shapes: Sequence[SlotShape], tokens: int) -> int:
    """The same tokens at 16 bits (counted)."""
    return sum(2 * tokens * s.batch * s.heads * (s.key_dim + s.value_dim) for s in shapes)


def predicted_curve(
    config: KVCacheConfig, shapes: Sequence[SlotShape], tokens: int, points: int = 120
) -> list[tuple[float, float]]:
    """(tokens, predicted bytes) from nothing to ``tokens`` tokens at up to ``points`` places, rising.

    Few enough to be made again for every frame of a drag. Empty where the method can't tell.
    """
    places = dict.fromkeys(round(tokens * index / points) for index in range(1, points + 1))
    counted = Counter(shapes)
    curve = [(float(at), float(_sum(config, counted, at).total)) for at in places if at]
    return curve if any(value for _, value in curve) else []
