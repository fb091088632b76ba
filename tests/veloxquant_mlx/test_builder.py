"""Which slots of a model a method gets, and that mlx_lm works through the list unchanged."""

from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from tests import families
from tests.tiny import tiny_folder, tiny_model
from veloxquant_mlx import attention
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache.mixed import MixedCache, compressed_caches, own_cache
from veloxquant_mlx.cache.skvq_cache import SKVQKVCache
from veloxquant_mlx.config import KVCacheConfig, SlotShape
from veloxquant_mlx.shapes import slot_shapes

Kind = type | tuple[type, ...]
"""Class of a slot, or of the caches of a CacheList."""

FAMILIES: dict[str, tuple[Kind, ...]] = {
    "llama": (KVCache, KVCache, KVCache),
    "gemma2": (KVCache, KVCache, KVCache),
    "gemma3_text": (RotatingKVCache, RotatingKVCache, KVCache),
    "gemma3n": (RotatingKVCache, KVCache),
    "gpt_oss": (RotatingKVCache, KVCache),
    "qwen3_next": (ArraysCache, ArraysCache, ArraysCache, KVCache),
    "llama4": (ChunkedKVCache, ChunkedKVCache, ChunkedKVCache, KVCache),
    "falcon_h1": ((ArraysCache, KVCache), (ArraysCache, KVCache)),
    "baichuan_m1": ((ArraysCache, RotatingKVCache), (ArraysCache, KVCache)),
    "mamba": (ArraysCache, ArraysCache, ArraysCache),
    "deepseek_v2": (KVCache, KVCache, KVCache),
}
UNTOUCHED = {
    "deepseek_v3": (KVCache, KVCache),
    "kimi_k25": (KVCache, KVCache),
    "glm4_moe_lite": (KVCache, KVCache),
    "kimi_linear": (ArraysCache, KVCache),
    "deepseek_v32": ((KVCache, KVCache), (KVCache, KVCache)),
    "afm7": (KVCache, KVCache),
    "mamba2": (ArraysCache, ArraysCache),
}
"""Families of which no method that compresses replaces a slot."""

SKVQ = KVCacheConfig(method="skvq", skvq_window=16)

every_family = pytest.mark.parametrize("family", FAMILIES)


@cache
def model_of(family: str) -> Any:
    return tiny_model(family)


def kind(slot: Any) -> Kind:
    return tuple(map(type, slot.caches)) if isinstance(slot, CacheList) else type(slot)


@pytest.mark.parametrize("family", FAMILIES | UNTOUCHED)
def test_the_tiny_families_have_the_slots_they_stand_for(family: str) -> None:
    assert tuple(map(kind, make_prompt_cache(model_of(family)))) == (FAMILIES | UNTOUCHED)[family]


@every_family
def test_exactly_the_plain_kv_slots_are_replaced(family: str) -> None:
    owned = {KVCache: SKVQKVCache}
    for slot, stock in zip(KVCacheBuilder.for_model(model_of(family), SKVQ), FAMILIES[family], strict=True):
        if isinstance(stock, tuple):
            assert isinstance(slot, CacheList)
            assert isinstance(slot, MixedCache) == (KVCache in stock)
            assert kind(slot) == tuple(owned.get(inner, inner) for inner in stock)
        else:
            assert type(slot) is owned.get(stock, stock)


@pytest.mark.parametrize("family", UNTOUCHED)
def test_families_whose_rows_mean_something_else_are_left(family: str) -> None:
    model = model_of(family)
    assert KVCacheBuilder.plan(model, SKVQ).replaced == 0
    made = KVCacheBuilder.for_model(model, SKVQ)
    assert tuple(map(kind, made)) == UNTOUCHED[family]
    assert not list(compressed_caches(made))


@every_family
def test_the_plan_says_what_the_list_does(family: str) -> None:
    plan = KVCacheBuilder.plan(model_of(family), SKVQ)
    made = KVCacheBuilder.for_model(model_of(family), SKVQ)
    assert [slot.slot for slot in plan.slots] == list(range(len(made)))
    assert [slot.replaced for slot in plan.slots] == [own_cache(slot) is not None for slot in made]
    assert all(slot.sentence == f"Slot {slot.slot} {slot.reason}." for slot in plan.slots)


@pytest.mark.parametrize(("family", "slot"), [("qwen3_next", 3), ("baichuan_m1", 1)])
def test_a_replaced_slot_knows_its_place(family: str, slot: int) -> None:
    made = KVCacheBuilder.for_model(model_of(family), SKVQ)
    assert [cache.slot for cache in compressed_caches(made)] == [slot]


def test_every_call_gives_fresh_slots() -> None:
    first, second = (KVCacheBuilder.for_model(model_of("gemma3_text"), SKVQ) for _ in range(2))
    assert all(a is not b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("family", "sentence"),
    [
        ("llama", "All 3 slots compressed."),
        ("gemma3_text", "1 of 3 slots compressed: 2 keep a 16-token window of their own."),
        ("baichuan_m1", "1 of 2 slots compressed: 1 keeps a 16-token window of its own."),
        ("llama4", "1 of 4 slots compressed: 3 keep chunks of 16 tokens of their own."),
        ("mamba", "None of 3 slots compressed: they keep a recurrent state, not keys and values."),
        ("deepseek_v3", "None of 2 slots compressed: they hold latents, compressed already."),
        ("afm7", "None of 2 slots compressed: they hold rows that the last layers read again."),
        (
            "kimi_linear",
            "None of 2 slots compressed: 1 keeps a recurrent state, not keys and values; "
            "1 holds latents, compressed already.",
        ),
    ],
)  # fmt: skip
def test_the_plan_in_one_sentence(family: str, sentence: str) -> None:
    plan = KVCacheBuilder.plan(model_of(family), SKVQ)
    assert plan.sentence == sentence
    assert plan.words == (sentence if plan.replaced else f"{sentence} The model chats without compression.")


def test_a_method_that_only_counts_takes_every_plain_slot_and_promises_nothing() -> None:
    plain = KVCacheConfig("plain")
    assert KVCacheBuilder.plan(model_of("deepseek_v3"), plain).words == "All 2 slots kept as plain rows."
    words = KVCacheBuilder.plan(model_of("mamba"), plain).words
    assert words == "None of 3 slots kept as plain rows: they keep a recurrent state, not keys and values."


@pytest.mark.parametrize("family", ["gpt_oss", "gemma2", "gemma3n", "gemma4_text", "plamo2"])
def test_codes_are_not_handed_to_attention_that_reads_rows(family: str) -> None:
    model = tiny_model(family)
    packed = KVCacheBuilder.plan(model, KVCacheConfig("affine", affine_group_size=32))
    assert packed.replaced == 0
    assert "can't take packed rows: it" in packed.sentence
    attention.enable(model)
    plan = KVCacheBuilder.plan(model, SKVQ)
    assert plan.replaced
    assert plan.words.startswith(f"{plan.sentence} Every step decodes the rows: it")


def test_the_larger_gemma_4_shares_no_rows_and_attends_on_codes() -> None:
    with attention.attention_on_codes(model_of("gemma4")) as reason:
        assert reason is None
        assert KVCacheBuilder.plan(model_of("gemma4"), SKVQ).decoded is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (KVCacheConfig("affine", affine_group_size=128), "heads of 32 channels that can't be split"),
        (KVCacheConfig("skvq", skvq_rotate=True), "heads of 36 channels that can't be rotated"),
    ],
)
def test_heads_that_a_method_cannot_take_are_found_before_the_first_token(
    config: KVCacheConfig, words: str
) -> None:
    model = tiny_model("llama", head_dim=36 if config.method == "skvq" else 32)
    plan = KVCacheBuilder.plan(model, config)
    assert plan.replaced == 0
    assert words in plan.sentence
    assert all(type(slot) is KVCache for slot in KVCacheBuilder.for_model(model, config))


def test_shapes_are_known_without_computing_anything() -> None:
    model = tiny_model("deepseek_v2")
    mx.eval(model.parameters())
    mx.synchronize()
    before = mx.get_active_memory()
    assert slot_shapes(model) == (SlotShape(4, 32, 32),) * 3
    assert mx.get_active_memory() == before
    assert slot_shapes(model_of("falcon_h1")) == (SlotShape(2, 32, 32),) * 2
    assert slot_shapes(model_of("mamba")) == (None,) * 3


class _Slots:
    """A model that only knows its cache list."""

    def __init__(self, *slots: Any) -> None:
        self.slots = slots
        self.layers = slots

    def make_cache(self) -> list[Any]:
        return list(self.slots)

    def modules(self) -> list[Any]:
        return [self]


class _OwnKVCache(KVCache):
    pass


def test_a_subclass_and_nested_caches_stay_as_the_model_made_them() -> None:
    slots = (_OwnKVCache(), CacheList(KVCache(), KVCache()), KVCache())
    model = _Slots(*slots)
    made = KVCacheBuilder.for_model(model, SKVQ)
    assert made[0] is slots[0]
    assert made[1] is slots[1]
    assert isinstance(made[2], SKVQKVCache)
    reasons = [slot.reason for slot in KVCacheBuilder.plan(model, SKVQ).slots]
    assert reasons[0] == "holds a cache of the model's own kind (_OwnKVCache)"
    assert reasons[1] == "holds several caches that work together"


def test_a_model_that_does_not_run_through_a_compressed_cache_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def whole(self: Any, keys: mx.array, values: mx.array) -> Any:
        raise AttributeError("rows wanted as one buffer")

    model = tiny_model("llama")
    with monkeypatch.context() as patch:
        patch.setattr(SKVQKVCache, "update_and_fetch", whole)
        attention.enable(model)
    plan = KVCacheBuilder.plan(model, SKVQ)
    assert plan.sentence == (
        "None of 3 slots compressed: they stay as they were: "
        "the model does not run through a compressed cache."
    )
    assert KVCacheBuilder.plan(model, KVCacheConfig("plain")).replaced == 3


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = tiny_folder(tmp_path_factory.mktemp("models") / "llama")
    return mlx_lm.load(str(folder))  # type: ignore[return-value]


PROMPT = "the inner thing is on the table and here is more of it"


def test_mlx_lm_s_generate_runs_with_the_list(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    made = KVCacheBuilder.for_model(model, SKVQ)
    text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=20, prompt_cache=made)
    read = len(tokenizer.encode(PROMPT))
    assert text
    assert {slot.offset for slot in made} == {read + 20}
    assert {slot.frontier for slot in made} == {(read + 20) // 16 * 16}
    assert made[0].byte_count().codes > 0


def test_before_the_first_flush_the_words_are_those_of_the_plain_cache(loaded: tuple[Any, Any]) -> None:
    """The exact rows are float16: greedy words of a float32 model do not notice."""
    model, tokenizer = loaded
    made = KVCacheBuilder.for_model(model, KVCacheConfig(method="skvq", skvq_window=1024))
    ours = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=20, prompt_cache=made)
    assert ours == mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=20)


def test_mlx_lm_does_not_swap_our_slots_for_quantized_ones(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    made = KVCacheBuilder.for_model(model, SKVQ)
    mlx_lm.generate(
        model, tokenizer, PROMPT, max_tokens=4, prompt_cache=made, kv_bits=4, quantized_kv_start=0
    )
    assert all(isinstance(slot, SKVQKVCache) for slot in made)


@pytest.mark.parametrize("family", sorted(families.FAMILIES.keys() - UNTOUCHED - {"mamba"}))
def test_eight_bits_stay_close_to_the_uncompressed_answer(family: str) -> None:
    model = model_of(family)
    tokens = mx.arange(60)[None] % 250
    near = KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=8, skvq_bits_value=8)
    ours = model(tokens, cache=KVCacheBuilder.for_model(model, near))
    theirs = model(tokens, cache=make_prompt_cache(model))
    two = model(tokens, cache=KVCacheBuilder.for_model(model, SKVQ))
    apart = mx.abs(ours - theirs).mean().item()
    assert 0 < apart < 0.1 * mx.abs(theirs).mean().item()
    assert apart < 0.2 * mx.abs(two - theirs).mean().item()


def test_models_are_not_changed_by_building(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = dict(vars(type(model)))
    KVCacheBuilder.for_model(model, SKVQ)
    assert vars(type(model)) == before
    assert [type(slot) for slot in make_prompt_cache(model)] == [KVCache] * 3
