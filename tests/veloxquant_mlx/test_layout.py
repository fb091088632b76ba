"""What the layout of a model's slots says, against the arrays the model's own caches really hold."""

from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ChunkedKVCache, KVCache, RotatingKVCache, make_prompt_cache

from tests.families import FAMILIES
from tests.tiny import tiny_config, tiny_model
from veloxquant_mlx.builder import KVCacheBuilder, layout_of
from veloxquant_mlx.cache.slot import snapshot
from veloxquant_mlx.config import KVCacheConfig, SlotShape
from veloxquant_mlx.layout import Growth, Layout, SlotLayout
from veloxquant_mlx.models.slots import read_layout

TOKENS = 41
SKVQ = KVCacheConfig("skvq", skvq_window=8, skvq_group_size=16, skvq_n_sink=2)


def _held(cache: Any, tokens: int) -> int:
    """Bytes of what a cache holds, the padding of its buffers left out."""
    if isinstance(cache, (KVCache, RotatingKVCache, ChunkedKVCache)):
        most = getattr(cache, "max_size", None) or getattr(cache, "chunk_size", None) or tokens
        kept = [cache.keys, cache.values] if cache.keys is not None else []
        return sum(a.nbytes // a.shape[2] * min(tokens, most, a.shape[2]) for a in kept)
    return sum(a.nbytes for _, a in tree_flatten(cache.state) if isinstance(a, mx.array))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_holds_what_its_configuration_tells(family: str) -> None:
    model, slots = tiny_model(family), []
    slots = make_prompt_cache(model)
    for token in range(TOKENS):
        model(mx.array([[token]]), cache=slots)
        mx.eval([slot.state for slot in slots])
    held = [sum(_held(cache, TOKENS) for cache in getattr(slot, "caches", (slot,))) for slot in slots]
    layout = read_layout(tiny_config(family))
    told = [
        None if slot.whole is None else sum(growth.bytes_at(TOKENS, 4) for growth in slot.whole)
        for slot in layout.slots
    ]
    assert told == held
    whole = layout.cache_bytes(None, TOKENS, 4)
    assert whole is not None and whole.total == whole.foreign == sum(held)


@pytest.mark.parametrize("family", ["llama", "gemma3", "falcon_h1", "gemma3n", "gpt_oss", "qwen3_next"])
def test_under_a_method_the_bytes_are_those_that_the_cache_counts(family: str) -> None:
    model = tiny_model(family)
    caches = KVCacheBuilder.for_model(model, SKVQ)
    for token in range(TOKENS):
        model(mx.array([[token]]), cache=caches)
        mx.eval([slot.state for slot in caches])
    told = read_layout(tiny_config(family)).cache_bytes(SKVQ, TOKENS, 4)
    counted = snapshot(caches).counted
    assert told is not None
    ours = {kind: size for kind, size in told.as_dict().items() if kind != "foreign"}
    assert ours == {kind: size for kind, size in counted.as_dict().items() if kind != "foreign"}
    assert told.codes


def test_the_configuration_alone_decides_as_the_model_does() -> None:
    for family in FAMILIES:
        for config in (SKVQ, KVCacheConfig("plain"), KVCacheConfig("affine")):
            model = tiny_model(family)
            layout = read_layout(tiny_config(family))
            assert layout.plan(config) == KVCacheBuilder.plan(model, config), family
            assert layout.kv == layout_of(model).kv


def test_a_window_stops_growing_and_a_state_never_does() -> None:
    assert [Growth(10, 16).bytes_at(n, 2) for n in (0, 1, 16, 17, 9999)] == [0, 20, 320, 320, 320]
    assert [Growth(0, None, 50, 7).bytes_at(n, 4) for n in (0, 5)] == [207, 207]


def test_a_slot_nobody_knows_makes_the_sum_unknown() -> None:
    known = SlotLayout(None, SlotShape(2, 32, 32), (Growth(128),))
    assert Layout((known,)).cache_bytes(None, 10) is not None
    assert Layout((known, SlotLayout(("x", "y"), None, None))).cache_bytes(None, 10) is None
    assert Layout((known, SlotLayout(("x", "y"), None, None))).cache_bytes(SKVQ, 10) is None


def test_plain_and_affine_caches_take_the_model_s_precision() -> None:
    layout = read_layout(tiny_config("llama"))
    for config in (KVCacheConfig("plain"), KVCacheConfig("affine", affine_group_size=32)):
        model = tiny_model("llama")
        caches = KVCacheBuilder.for_model(model, config)
        model(mx.arange(TOKENS)[None], cache=caches)
        told = layout.cache_bytes(config, TOKENS, 4)
        assert told == snapshot(caches).counted
    assert layout.cache_bytes(KVCacheConfig("plain"), TOKENS, 2) == layout.cache_bytes(
        KVCacheConfig("plain"), TOKENS
    )
