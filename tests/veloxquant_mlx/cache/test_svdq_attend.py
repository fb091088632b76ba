"""Attention on latents agrees with attention over the decoded keys; what a fit learns from beside them."""

from typing import Any

import mlx.core as mx
import pytest

from tests.tiny import tiny_model
from tests.veloxquant_mlx.cache.feeding import feed, rows
from veloxquant_mlx.attention import attention_on_codes
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache import attend, codes, latents
from veloxquant_mlx.cache.latents import LatentReader
from veloxquant_mlx.cache.readers import RowReader
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.rewind import mark, rewind

CONFIGS: dict[str, dict[str, Any]] = {
    "documented": {},
    "by energy": {"svdq_bit_schedule": "auto", "svdq_avg_bits": 3.0, "svdq_param_bits": 8, "svdq_n_sink": 4},
    "every width": {"svdq_rank": 64, "svdq_bit_schedule": (8, 7, 6, 5, 4, 3, 2, 1)},
    "groups of 16": {"svdq_group_size": 16, "svdq_recent": 8},
}
WEIGHED: dict[str, Any] = {
    "svdq_bit_schedule": "auto", "svdq_n_sink": 2, "svdq_fit_rows": 64, "svdq_positions": 512,
    "svdq_query_weight": 0.5, "svdq_defer_flush": True,
}  # fmt: skip


@pytest.fixture(params=["lanes", "kernels"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """That of a CPU and that of a GPU, whatever machine this is."""
    for module in (attend, codes, latents):
        monkeypatch.setattr(module, "on_cpu", lambda: request.param == "lanes")
    return str(request.param)


@pytest.mark.parametrize("method", ["svdq", "svdq_skvq"])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(("length", "mask"), [(1, None), (5, "causal"), (60, "causal")])
def test_it_agrees_with_attention_over_the_decoded_rows(
    method: str, name: str, repeats: int, length: int, mask: str | None, way: str
) -> None:
    cache: Any = KVCacheConfig(method, **CONFIGS[name]).make_cache(0)
    feed(cache, *rows(133, batch=2, heads=2), [133])
    asked = mx.random.normal((2, 2 * repeats, length, 64), key=mx.random.key(7))
    decoded = cache.key_side.rows(mx.float32), cache.value_side.rows(mx.float32)
    wanted = mx.fast.scaled_dot_product_attention(asked, *decoded, scale=0.125, mask=mask)
    assert mx.abs(cache.attend(asked, 0.125, mask) - wanted).max().item() < 5e-5
    # mlx's kernels know neither 7 bits nor groups of 16.
    decodes = way == "kernels" and name in ("every width", "groups of 16")
    assert type(cache.key_side.reader(mx.float32, repeats)) is (RowReader if decodes else LatentReader)


def test_many_queries_meet_keys_that_were_decoded_once() -> None:
    cache: Any = feed(KVCacheConfig("svdq").make_cache(0), *rows(133), [133])
    assert isinstance(cache.key_side.reader(mx.float32, 3), LatentReader)
    assert isinstance(cache.key_side.reader(mx.float32, 300), RowReader)


def test_with_no_exact_row_left_the_codes_are_all_there_is() -> None:
    cache: Any = KVCacheConfig("svdq").make_cache(0)
    feed(cache, *rows(128), [128])
    assert cache.key_side.exact_count == 0
    asked = mx.random.normal((1, 2, 1, 64), key=mx.random.key(7))
    decoded = cache.key_side.rows(mx.float32), cache.value_side.rows(mx.float32)
    wanted = mx.fast.scaled_dot_product_attention(asked, *decoded, scale=0.125)
    assert mx.abs(cache.attend(asked, 0.125, None) - wanted).max().item() < 5e-5


def _read(model: Any, caches: list[Any], sizes: list[int]) -> mx.array:
    start = caches[0].offset
    tokens = mx.random.randint(0, 200, (400,), key=mx.random.key(3))
    for size in sizes:
        logits: mx.array = model(tokens[None, start : start + size], cache=caches)
        mx.eval(logits)
        start += size
    return logits


def test_the_model_s_rotary_embedding_and_its_queries_shape_the_basis() -> None:
    model = tiny_model()
    directions = []
    for changes in ({}, {"svdq_positions": 0}, {"svdq_query_weight": 0.0}):
        with attention_on_codes(model):
            caches = KVCacheBuilder.for_model(model, KVCacheConfig("svdq", **WEIGHED | changes))
            _read(model, caches, [64, 64])
        directions.append(caches[1].key_side.store.directions)
    assert not mx.array_equal(directions[0], directions[1])
    assert not mx.array_equal(directions[0], directions[2])


def test_without_attention_on_codes_a_fit_learns_from_keys_alone() -> None:
    model = tiny_model()
    found = []
    for weight in (0.0, 0.5):
        config = KVCacheConfig("svdq", **WEIGHED | {"svdq_query_weight": weight})
        caches = KVCacheBuilder.for_model(model, config)
        _read(model, caches, [64, 64])
        found.append(caches[1].key_side.store.directions)
    assert mx.array_equal(*found)


def test_what_was_gathered_of_queries_is_counted_until_the_fit() -> None:
    model = tiny_model()
    with attention_on_codes(model):
        caches = KVCacheBuilder.for_model(model, KVCacheConfig("svdq", **WEIGHED))
        _read(model, caches, [32])
        assert caches[0].byte_count().side == 2 * 32 * 32 * 4
        assert caches[0].byte_count().total == caches[0].resident_bytes
        _read(model, caches, [64])
        assert caches[0].key_side.gathered is None
        assert caches[0].byte_count().total == caches[0].resident_bytes


@pytest.mark.parametrize("first", [20, 64, 100])
def test_going_back_to_before_the_fit_forgets_the_queries_since(first: int) -> None:
    model = tiny_model()
    with attention_on_codes(model):
        caches = KVCacheBuilder.for_model(model, KVCacheConfig("svdq_skvq", **WEIGHED))
        _read(model, caches, [first])
        before = mark(caches)
        wanted = _read(model, caches, [50, 50, 1])
        rewind(caches, before)
        assert mx.array_equal(_read(model, caches, [50, 50, 1]), wanted)
