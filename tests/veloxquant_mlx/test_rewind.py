"""A whole cache list, taken back: the same logits bit for bit as if it had never gone on."""

import copy
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from tests.tiny import tiny_model
from tests.veloxquant_mlx.cache.feeding import rows
from veloxquant_mlx import attention
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import CacheError
from veloxquant_mlx.rewind import cut, mark, rewind

WINDOW = {"skvq_window": 16, "skvq_recent": 8}


def _read(model: Any, caches: list[Any], tokens: list[int], sizes: list[int]) -> mx.array:
    """Logits of the last call, after reading ``tokens`` in blocks of ``sizes``."""
    start, logits = 0, None
    for size in sizes:
        logits = model(mx.array(tokens[start : start + size])[None], cache=caches)
        mx.eval(logits)
        start += size
    assert logits is not None
    return logits


FAMILIES = ("llama", "qwen2", "gemma3_text", "qwen3_next", "mamba", "deepseek_v2")
CONFIGS = (
    KVCacheConfig("skvq", **WINDOW),
    KVCacheConfig("svdq_skvq", svdq_group_size=16, svdq_fit_rows=32, svdq_recent=8, svdq_query_weight=0.5),
    KVCacheConfig("plain"),
    KVCacheConfig("affine", affine_group_size=32),
)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        (family, config)
        for family in FAMILIES
        for config in CONFIGS
        # Its keys do not divide into mlx_lm's groups.
        if (family, config.method) != ("deepseek_v2", "affine")
    ],
)
def test_the_same_calls_after_going_back_give_the_same_logits(family: str, config: KVCacheConfig) -> None:
    model = tiny_model(family)
    caches = KVCacheBuilder.for_model(model, config)
    tokens = [(7 * n) % 200 + 3 for n in range(200)]
    _read(model, caches, tokens, [30, 1, 1, 20])
    place = mark(caches, 52)
    sizes = [25, 1, 1, 1]
    first = _read(model, caches, tokens[52:], sizes)
    _read(model, caches, tokens[80:], [60, 1, 1])
    rewind(caches, place)
    again = _read(model, caches, tokens[52:], sizes)
    assert mx.array_equal(first, again).item()
    # Another way from the same place, then back: a branch leaves no trace.
    rewind(caches, place)
    _read(model, caches, tokens[::-1], [33, 1, 40])
    rewind(caches, place)
    assert mx.array_equal(first, _read(model, caches, tokens[52:], sizes)).item()


def test_attention_on_codes_gives_the_same_logits_after_going_back() -> None:
    model = tiny_model("llama")
    with attention.attention_on_codes(model) as reason:
        assert reason is None
        config = KVCacheConfig("skvq", **WINDOW, skvq_group_size=32, skvq_defer_flush=True)
        caches = KVCacheBuilder.for_model(model, config)
        tokens = list(range(3, 203))
        _read(model, caches, tokens, [90])
        place = mark(caches)
        first = _read(model, caches, tokens[90:], [1] * 40)
        rewind(caches, place)
        assert mx.array_equal(first, _read(model, caches, tokens[90:], [1] * 40)).item()


def _feed(slot: Any, tokens: int, seed: int, size: int = 1) -> None:
    keys, values = rows(tokens, seed=seed)
    parts = slot.caches if isinstance(slot, CacheList) else [slot]
    for start in range(0, tokens, size):
        for part in parts:
            if isinstance(part, ArraysCache):
                part[0] = keys[:, :, start]
                part[1] = keys[:, :, start] if part[1] is None else part[1] + keys[:, :, start]
                continue
            if isinstance(part, ChunkedKVCache):
                part.maybe_trim_front()
            part.update_and_fetch(keys[:, :, start : start + size], values[:, :, start : start + size])
            mx.eval(part.state)


def _content(slot: Any) -> list[Any]:
    if isinstance(slot, CacheList):
        return [item for part in slot.caches for item in _content(part)]
    if isinstance(slot, ArraysCache):
        return [slot[0], slot[1]]
    return [slot.offset, *(leaf for _, leaf in tree_flatten(slot.keys_and_values()))]


def _equal(first: Any, second: Any) -> bool:
    pairs = zip(_content(first), _content(second), strict=True)
    return all(a == b if isinstance(a, int) else bool(mx.array_equal(a, b).item()) for a, b in pairs)


SLOTS = {
    "kv": KVCache,
    "quantized": lambda: QuantizedKVCache(group_size=32, bits=4),
    "rotating": lambda: RotatingKVCache(max_size=24),
    "rotating with kept rows": lambda: RotatingKVCache(max_size=24, keep=4),
    "chunked": lambda: ChunkedKVCache(chunk_size=24),
    "arrays": lambda: ArraysCache(2),
    "several": lambda: CacheList(ArraysCache(2), RotatingKVCache(max_size=24), KVCache()),
    "ours inside": lambda: CacheList(ArraysCache(2), KVCacheConfig("skvq", **WINDOW).make_cache(0)),
}


@pytest.mark.parametrize("kind", SLOTS)
@pytest.mark.parametrize("before", [5, 20, 24, 70])
@pytest.mark.parametrize("on", [1, 9])
def test_a_slot_of_mlx_lm_comes_back_although_it_writes_over_itself(kind: str, before: int, on: int) -> None:
    slot: Any = SLOTS[kind]()  # type: ignore[operator]
    _feed(slot, before, 1)
    caches, twin = [slot], copy.deepcopy(slot)
    place = mark(caches, before)
    for seed in (2, 3):
        _feed(slot, 45, seed, on)
        rewind(caches, place)
        assert _equal(slot, twin)
    _feed(slot, 45, 4, on)
    _feed(twin, 45, 4, on)
    assert _equal(slot, twin)


def test_a_list_can_be_cut_as_far_as_every_slot_can() -> None:
    ours = KVCacheConfig("skvq", **WINDOW).make_cache(0)
    growing, rotating = KVCache(), RotatingKVCache(max_size=24)
    for slot in (ours, growing, rotating):
        _feed(slot, 45, 1)
    some = mark([ours, growing])
    assert some.lowest == 40  # two windows of 16 and 8 recent rows
    short = cut([ours, growing], some, 40)
    assert short.nbytes < some.nbytes
    _feed(ours, 20, 2)
    _feed(growing, 20, 2)
    rewind([ours, growing], short)
    assert ours.offset == growing.offset == 40
    rolled = KVCacheConfig("skvq", **WINDOW).make_cache(1)
    _feed(rolled, 45, 1)
    every = mark([rolled, rotating])
    assert every.lowest == 45
    with pytest.raises(CacheError, match="cannot be cut"):
        cut([rolled, rotating], every, 44)


def test_a_list_is_put_back_wholly_or_not_at_all() -> None:
    slots = [KVCacheConfig("skvq", **WINDOW).make_cache(n) for n in range(3)]
    for slot in slots:
        _feed(slot, 40, 1)
    early = mark(slots)
    for slot in slots:
        _feed(slot, 40, 2)
    late = mark(slots)
    slots[2].rewind(early.slots[2])
    with pytest.raises(CacheError):
        rewind(slots, late)
    assert [slot.offset for slot in slots] == [80, 80, 40]
    with pytest.raises(CacheError, match="2 slots"):
        rewind(slots[:1], mark(slots[:2]))
    rewind(slots, early)
    assert [slot.offset for slot in slots] == [40, 40, 40]


def test_marks_of_many_turns_keep_tails_only() -> None:
    model = tiny_model("llama")
    caches = KVCacheBuilder.for_model(model, KVCacheConfig("skvq", **WINDOW))
    places = []
    for turn in range(10):
        _read(model, caches, [(turn * 31 + n) % 250 for n in range(100)], [99, 1])
        places.append(mark(caches))
    row = 3 * 2 * 2 * 32 * 2  # slots, keys and values, heads, channels, bytes
    for place in places:
        assert place.nbytes <= row * (16 + 8 - 1)


@pytest.mark.parametrize("method", ["skvq", "svdq", "svdq_skvq"])
def test_a_cache_restored_where_everything_was_flushed_goes_on(method: str) -> None:
    config = KVCacheConfig(method)
    cache, again = config.make_cache(0), config.make_cache(0)
    for start in range(0, 128, 32):
        cache.update_and_fetch(*rows(32, seed=start))
    assert cache.frontier == cache.offset == 128
    again.restore(*cache.dump())
    again.update_and_fetch(*rows(256))
    assert again.offset == 384 and again.frontier > 128
