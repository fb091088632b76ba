"""What a slot gives for a file makes an empty slot the same one; what does not fit is refused."""

import json
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, ChunkedKVCache, QuantizedKVCache, RotatingKVCache

from tests.veloxquant_mlx.cache.feeding import feed, rows, same
from tests.veloxquant_mlx.cache.test_marks import CONFIGS
from veloxquant_mlx.cache.dump import dump_attributes, restore_attributes
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import CacheError


def _through(slot: Any, fresh: Any) -> Any:
    arrays, facts = slot.dump()
    fresh.restore(arrays, json.loads(json.dumps(facts)))
    return fresh


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("tokens", [0, 10, 16, 100, 333])
def test_a_restored_slot_goes_on_as_the_first(name: str, dtype: mx.Dtype, tokens: int) -> None:
    config = KVCacheConfig(**CONFIGS[name])
    keys, values = rows(400, dtype=dtype)
    first = feed(config.make_cache(5), keys, values, [tokens] if tokens else [])
    second = _through(first, config.make_cache(5))
    assert same(first, second)
    assert first.byte_count() == second.byte_count()
    feed(first, keys, values, [1, 30, 1])
    feed(second, keys, values, [1, 30, 1])
    assert same(first, second)
    assert first.offset == second.offset == tokens + 32


def _leaves(tree: Any) -> list[mx.array]:
    return [leaf for _, leaf in tree_flatten(tree)]


def _dumped() -> tuple[KVCacheConfig, dict[str, mx.array], dict[str, Any]]:
    config = KVCacheConfig(**CONFIGS["reordered with recent rows"])
    return config, *feed(config.make_cache(5), *rows(200), [200]).dump()


@pytest.mark.parametrize("name", list(_dumped()[1]))
@pytest.mark.parametrize("damage", ["missing", "type", "longer", "flat"])
def test_an_array_that_does_not_fit_is_refused(name: str, damage: str) -> None:
    config, arrays, facts = _dumped()
    array = arrays.pop(name)
    if damage == "type":
        arrays[name] = array.astype(mx.float32)
    elif damage == "longer":
        arrays[name] = mx.concatenate([array, array], axis=-1)
    elif damage == "flat":
        arrays[name] = array.reshape(-1)
    with pytest.raises((ValueError, KeyError)):
        config.make_cache(5).restore(arrays, facts)


@pytest.mark.parametrize("tokens", [-1, 199, 300, 1 << 60, 2.5, True, None, "200"])
def test_a_count_that_does_not_fit_is_refused(tokens: Any) -> None:
    config, arrays, facts = _dumped()
    with pytest.raises((ValueError, KeyError, TypeError)):
        config.make_cache(5).restore(arrays, facts | {"tokens": tokens})


def test_an_order_that_leaves_the_channels_is_refused() -> None:
    config, arrays, facts = _dumped()
    arrays["keys.order"] = arrays["keys.order"] + 1
    with pytest.raises(ValueError, match="order"):
        config.make_cache(5).restore(arrays, facts)


def test_a_dump_of_another_configuration_is_refused() -> None:
    _, arrays, facts = _dumped()
    for told in ({"skvq_bits_key": 4}, {"skvq_window": 32}, {"skvq_param_bits": 8}, {"skvq_n_sink": 0}):
        config = KVCacheConfig(**CONFIGS["reordered with recent rows"] | told)
        with pytest.raises((ValueError, KeyError)):
            config.make_cache(5).restore(arrays, facts)


@pytest.mark.parametrize("tokens", [0, 9, 60])
@pytest.mark.parametrize(
    "make",
    [
        lambda: RotatingKVCache(max_size=16, keep=4),
        lambda: ChunkedKVCache(chunk_size=16),
        lambda: QuantizedKVCache(group_size=32, bits=4),
    ],
)
def test_a_cache_of_mlx_lm_comes_back_by_its_attributes(make: Any, tokens: int) -> None:
    keys, values = rows(100)
    first, second = make(), make()
    feed(first, keys, values, [1] * tokens)
    arrays, facts = dump_attributes(first)
    restore_attributes(second, arrays, json.loads(json.dumps(facts)))
    ours, theirs = (slot.update_and_fetch(keys[:, :, :1], values[:, :, :1]) for slot in (first, second))
    for a, b in zip(_leaves(ours), _leaves(theirs), strict=True):
        assert mx.array_equal(a, b).item()


def test_a_recurrent_state_comes_back() -> None:
    first, second = ArraysCache(3), ArraysCache(3)
    first[0], first[2] = mx.arange(4), mx.ones((2, 2))
    arrays, facts = dump_attributes(first)
    restore_attributes(second, arrays, json.loads(json.dumps(facts)))
    assert second[1] is None
    assert second[0].tolist() == [0, 1, 2, 3]


def test_another_window_than_the_model_s_is_refused() -> None:
    arrays, facts = dump_attributes(RotatingKVCache(max_size=16))
    with pytest.raises(ValueError, match="max_size"):
        restore_attributes(RotatingKVCache(max_size=32), arrays, facts)
    with pytest.raises(ValueError, match="attributes"):
        restore_attributes(ArraysCache(2), arrays, facts)


def test_what_is_neither_an_array_nor_plain_is_told() -> None:
    slot = ArraysCache(1)
    slot.helper = object()
    with pytest.raises(CacheError, match="ArraysCache"):
        dump_attributes(slot)
