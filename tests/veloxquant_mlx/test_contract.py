"""What every cache promises, for every method with every preset in every family."""

import copy
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.models import base as mlx_lm_base
from mlx_lm.models.cache import CacheList, KVCache, make_prompt_cache
from mlx_lm.utils import load_tokenizer

from tests.families import FAMILIES
from tests.tiny import tiny_model, write_tokenizer
from tests.veloxquant_mlx.cases import (
    PROMPT,
    SETTINGS,
    TOKENS,
    arrays,
    config_of,
    fed,
    feed,
    fresh,
    model_of,
    own,
    same,
)
from veloxquant_mlx import KVCacheBuilder, attention
from veloxquant_mlx.cache.base import CompressedKVCache
from veloxquant_mlx.cache.slot import held_arrays, held_tokens, snapshot
from veloxquant_mlx.models.describe import ModelInfo
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.rewind import mark, rewind
from veloxquant_mlx.storage import load, save

every_family = pytest.mark.parametrize("family", FAMILIES)
every_setting = pytest.mark.parametrize("setting", SETTINGS)


@pytest.fixture(scope="module", autouse=True)
def unloaded_without_a_trace() -> Iterator[None]:
    """The models are shared by all tests here; once they are unloaded mlx_lm is as it was.

    Without compilation: a hundred small functions would each wait for a C++ compiler on a CPU.
    """
    mx.disable_compile()
    yield
    mx.enable_compile()
    modules = {module for family in FAMILIES for module in attention.attention_modules(model_of(family))}
    for family in FAMILIES:
        attention.disable(model_of(family))
    stock = mlx_lm_base.scaled_dot_product_attention
    assert all(getattr(module, attention.NAME) is stock for module in modules)
    # Whatever the tests fed, an uncompressed list is mlx_lm's own again.
    for family in FAMILIES:
        assert not own(make_prompt_cache(model_of(family)))


@every_family
@every_setting
def test_the_plan_is_what_the_list_is(family: str, setting: str) -> None:
    plan = KVCacheBuilder.plan(model_of(family), config_of(family, setting))
    caches = fresh(family, setting)
    stock = make_prompt_cache(model_of(family))
    assert len(plan.slots) == len(caches) == len(stock)
    assert plan.replaced == len(own(caches))
    for item, made, was in zip(plan.slots, caches, stock, strict=True):
        assert item.reason and item.many
        if item.replaced:
            assert isinstance(made, (KVCache, CacheList)) or made.bits
        else:
            assert type(made) is type(was)


@every_family
@every_setting
def test_every_row_is_there(family: str, setting: str) -> None:
    caches = fed(family, setting)
    for cache in own(caches):
        assert held_tokens(cache) == PROMPT
        for rows in cache.keys_and_values():
            parts = [rows] if isinstance(rows, mx.array) else rows
            assert {part.shape[2] for part in parts} == {PROMPT}
            assert all(mx.isfinite(part).all().item() for part in parts if part.dtype != mx.uint32)
    stock = make_prompt_cache(model_of(family))
    feed(family, stock, (PROMPT,))
    assert [held_tokens(slot) for slot in caches] == [held_tokens(slot) for slot in stock]


@every_family
@every_setting
def test_masks_are_those_of_the_stock_cache(family: str, setting: str) -> None:
    stock = KVCache()
    stock.offset = PROMPT
    for cache in own(fed(family, setting)):
        for length in (1, 7):
            for window in (None, 16):
                ours = cache.make_mask(length, return_array=True, window_size=window)
                theirs = stock.make_mask(length, return_array=True, window_size=window)
                if theirs is None:
                    assert ours is None
                else:
                    assert mx.array_equal(ours, theirs).item()
            assert cache.make_mask(length, return_array=False, window_size=None) == stock.make_mask(
                length, return_array=False, window_size=None
            )


@every_family
@every_setting
def test_what_is_counted_is_held(family: str, setting: str) -> None:
    caches = fed(family, setting)
    for slot in caches:
        for cache in own([slot]):
            counted = cache.byte_count()
            assert cache.resident_bytes == sum(array.nbytes for array in cache.arrays())
            assert counted.foreign == 0
            assert 0 < counted.total <= cache.resident_bytes
            if isinstance(cache, CompressedKVCache):
                assert cache.resident_bytes <= 1.02 * counted.total
                assert counted.codes > 0
            assert cache.nbytes == cache.resident_bytes
    whole = snapshot(caches)
    assert whole.resident_bytes == sum(array.nbytes for array in arrays(caches))
    assert [layer.replaced for layer in whole.layers] == [bool(own([slot])) for slot in caches]


@every_family
@every_setting
def test_gauges_are_those_declared(family: str, setting: str) -> None:
    declared = config_of(family, setting).gauges
    known_at_once = {name for name, gauge in declared.items() if gauge.always}
    for cache in own(fresh(family, setting)):
        assert cache.gauges().keys() == known_at_once
    for caches in (fresh(family, setting), fed(family, setting)):
        for cache in own(caches):
            assert known_at_once <= cache.gauges().keys() <= declared.keys()
            assert all(math.isfinite(value) for value in cache.gauges().values())


@every_family
@every_setting
def test_blocks_of_a_prompt_change_no_figure(family: str, setting: str) -> None:
    other = fresh(family, setting)
    feed(family, other, (1, PROMPT - 12, 11))
    for ours, theirs in zip(own(other), own(fed(family, setting)), strict=True):
        assert ours.reference_bytes == theirs.reference_bytes
        assert (ours.byte_count().exact, ours.byte_count().sinks) == (
            theirs.byte_count().exact,
            theirs.byte_count().sinks,
        )
        assert ours.gauges().get("frontier") == theirs.gauges().get("frontier")


@every_family
@every_setting
def test_the_frontier_only_goes_forward(family: str, setting: str) -> None:
    caches = copy.deepcopy(fed(family, setting))
    passed = [[cache.gauges().get("frontier", 0) for cache in own(caches)]]
    for step in range(4):
        feed(family, caches, (1 if step % 2 else 9,), PROMPT + 5 * step)
        passed.append([cache.gauges().get("frontier", 0) for cache in own(caches)])
    for before, after in pairwise(passed):
        assert all(b <= a for b, a in zip(before, after, strict=True))
    if any("frontier" in cache.gauges() for cache in own(caches)):
        assert passed[-1] > passed[0]


@every_family
@every_setting
def test_a_deep_copy_goes_on_alone_and_alike(family: str, setting: str) -> None:
    caches = copy.deepcopy(fed(family, setting))
    before = arrays(caches)
    other = copy.deepcopy(caches)
    ahead = feed(family, other, (1, 18), PROMPT)
    assert same(before, arrays(caches))
    assert [held_tokens(slot) for slot in caches] == [held_tokens(slot) for slot in fed(family, setting)]
    assert same([ahead], [feed(family, caches, (1, 18), PROMPT)])
    assert same(arrays(other), arrays(caches))


@every_family
@every_setting
def test_going_back_is_never_having_gone_on(family: str, setting: str) -> None:
    caches = copy.deepcopy(fed(family, setting))
    place = mark(caches, PROMPT)
    first = feed(family, caches, (1, 1, 20), PROMPT)
    rewind(caches, place)
    assert snapshot(caches).layers == snapshot(fed(family, setting)).layers
    assert same([first], [feed(family, caches, (1, 1, 20), PROMPT)])
    rewind(caches, place)
    straight = copy.deepcopy(fed(family, setting))
    assert same([feed(family, caches, (22,), PROMPT)], [feed(family, straight, (22,), PROMPT)])
    assert same(_in_use(caches), _in_use(straight))


@every_family
@every_setting
def test_a_saved_list_goes_on_as_if_it_had_never_been_away(family: str, setting: str, tmp_path: Path) -> None:
    caches = copy.deepcopy(fed(family, setting))
    info = ModelInfo(Path(family), family, "tests", "mlx", family)
    loaded = LoadedModel(model_of(family), None, info, {}, "CPU float32", None, family)
    file = tmp_path / "saved.safetensors"
    save(file, caches, model=loaded, config=config_of(family, setting), tokens=TOKENS[:PROMPT])
    found = load(file, loaded)
    assert found.tokens == TOKENS[:PROMPT]
    assert found.config == config_of(family, setting)
    assert [type(slot) for slot in found.caches] == [type(slot) for slot in caches]
    assert snapshot(found.caches).layers == snapshot(caches).layers
    assert same(arrays(found.caches), arrays(caches))
    assert same([feed(family, found.caches, (1, 18), PROMPT)], [feed(family, caches, (1, 18), PROMPT)])


def _in_use(caches: list[Any]) -> list[mx.array]:
    """What the compressed caches hold; mlx_lm's own keep dead rows beyond what is in use."""
    return [
        array for cache in own(caches) if isinstance(cache, CompressedKVCache) for array in cache.arrays()
    ]


@every_family
@every_setting
def test_mlx_lm_finds_no_name_that_would_swap_the_cache(family: str, setting: str) -> None:
    config = config_of(family, setting)
    for slot in fresh(family, setting):
        for cache in own([slot]):
            for made in {id(slot): slot, id(cache): cache}.values():
                assert made
                names = ["to_quantized", "__len__", "__bool__"]
                if config.compresses:
                    names.append("merge")
                if config.gives_rows:
                    names.append("bits")
                assert not [name for name in names if hasattr(made, name)]


@every_family
@every_setting
def test_foreign_slots_are_the_model_s_own(family: str, setting: str) -> None:
    """Same classes, and the same bytes for the same tokens: no window became unbounded."""
    stock = make_prompt_cache(model_of(family))
    feed(family, stock, (33, 31, 1, 1, PROMPT - 66))
    for made, was in zip(fed(family, setting), stock, strict=True):
        pairs = zip(made.caches, was.caches, strict=True) if isinstance(was, CacheList) else [(made, was)]
        for ours, theirs in pairs:
            if not own([ours]):
                assert type(ours) is type(theirs)
                assert [a.shape for a in held_arrays(ours)] == [a.shape for a in held_arrays(theirs)]
                assert vars(ours).keys() == vars(theirs).keys()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return load_tokenizer(folder)


@every_family
@every_setting
def test_mlx_lm_generates_through_the_list(family: str, setting: str, tokenizer: Any) -> None:
    model, prompt = model_of(family), TOKENS[:50]
    lists = [fresh(family, setting) for _ in range(2)]
    # Asking for mlx_lm's own quantization beside it must not swap our caches for it.
    quantized = {"kv_bits": 4, "kv_group_size": 32, "quantized_kv_start": 0} if own(lists[0]) else {}
    quantized = quantized if all(own([slot]) for slot in lists[0]) else {}
    texts = [
        mlx_lm.generate(model, tokenizer, prompt, max_tokens=3, prompt_cache=caches, **quantized)
        for caches in lists
    ]
    assert texts[0] == texts[1]
    assert [type(slot) for slot in lists[0]] == [type(slot) for slot in fresh(family, setting)]
    held = [held_tokens(slot) for slot in lists[0]]
    text = ""
    third = fresh(family, setting)
    for count, answer in enumerate(
        mlx_lm.stream_generate(model, tokenizer, prompt, max_tokens=3, prompt_cache=third), 1
    ):
        text += answer.text
        assert answer.generation_tokens == count
    assert text == texts[0]
    assert [held_tokens(slot) for slot in third] == held
    assert set(held) <= {0, len(prompt) + answer.generation_tokens}
    # The lists hold what they held: nothing of one generation is in another.
    assert [held_tokens(slot) for slot in lists[0]] == held


@every_family
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=["float16", "bfloat16"])
def test_a_model_of_16_bits_stays_one(family: str, dtype: mx.Dtype) -> None:
    """On Metal models compute in 16 bits: what they are handed must not widen them."""
    model = tiny_model(family)
    model.set_dtype(dtype)
    stock, tokens = make_prompt_cache(model), mx.array(TOKENS[:40])[None]
    expected = model(tokens, cache=stock)
    try:
        mx.eval(expected)
    except RuntimeError:
        pytest.skip("MLX gathers experts in float32 only on a CPU")
    with attention.attention_on_codes(model):
        for config in {config_of(family, setting) for setting in SETTINGS}:
            caches = KVCacheBuilder.for_model(model, config)
            found = model(tokens, cache=caches)
            step = model(tokens[:, :1], cache=caches)
            assert found.dtype == step.dtype == expected.dtype
            assert mx.isfinite(found).all().item() and mx.isfinite(step).all().item()
            for cache in own(caches):
                if isinstance(cache, CompressedKVCache):
                    assert cache.keys is not None and cache.keys.dtype in (dtype, mx.float16)


@every_family
def test_counting_alone_changes_no_bit_of_an_answer(family: str) -> None:
    caches, stock = fresh(family, "plain"), make_prompt_cache(model_of(family))
    assert same(
        [feed(family, caches, (40, 1, 54), 0), feed(family, caches, (1,), PROMPT)],
        [feed(family, stock, (40, 1, 54), 0), feed(family, stock, (1,), PROMPT)],
    )
