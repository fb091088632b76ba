"""Which slots of a model a method gets, and that mlx_lm works through the list unchanged."""

from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from tests.tiny import tiny_folder, tiny_model
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache.skvq_cache import SKVQKVCache
from veloxquant_mlx.config import KVCacheConfig, methods

FAMILIES: dict[str, tuple[type, ...]] = {
    "llama": (KVCache, KVCache, KVCache),
    "gemma2": (KVCache, KVCache, KVCache),
    "gemma3_text": (RotatingKVCache, RotatingKVCache, KVCache),
    "qwen3_next": (ArraysCache, ArraysCache, ArraysCache, KVCache),
    "mamba": (ArraysCache, ArraysCache, ArraysCache),
    "deepseek_v2": (KVCache, KVCache, KVCache),
}
SKVQ = KVCacheConfig(method="skvq", skvq_window=16)

every_family = pytest.mark.parametrize("family", FAMILIES)
every_method = pytest.mark.parametrize("key", list(methods()))


@cache
def model_of(family: str) -> Any:
    return tiny_model(family)


@every_family
def test_the_tiny_families_have_the_slots_they_stand_for(family: str) -> None:
    assert tuple(type(slot) for slot in make_prompt_cache(model_of(family))) == FAMILIES[family]


@every_family
@every_method
def test_exactly_the_plain_kv_slots_are_replaced(family: str, key: str) -> None:
    config = KVCacheConfig(method=key)
    made = KVCacheBuilder.for_model(model_of(family), config)
    owned = type(config.make_cache(0))
    for slot, stock in zip(made, FAMILIES[family], strict=True):
        assert type(slot) is (owned if stock is KVCache else stock)


@every_family
def test_the_plan_says_what_the_list_does(family: str) -> None:
    plan = KVCacheBuilder.plan(model_of(family), SKVQ)
    made = KVCacheBuilder.for_model(model_of(family), SKVQ)
    assert [slot.slot for slot in plan.slots] == list(range(len(made)))
    assert [slot.replaced for slot in plan.slots] == [isinstance(slot, SKVQKVCache) for slot in made]
    assert all(slot.reason for slot in plan.slots)


def test_a_replaced_slot_knows_its_place() -> None:
    made = KVCacheBuilder.for_model(model_of("qwen3_next"), SKVQ)
    assert made[3].slot == 3


def test_every_call_gives_fresh_slots() -> None:
    first, second = (KVCacheBuilder.for_model(model_of("gemma3_text"), SKVQ) for _ in range(2))
    assert all(a is not b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("family", "words"),
    [("gemma3_text", "sliding window"), ("qwen3_next", "recurrent"), ("mamba", "recurrent")],
)
def test_a_slot_left_alone_says_why(family: str, words: str) -> None:
    plan = KVCacheBuilder.plan(model_of(family), SKVQ)
    left = [slot for slot in plan.slots if not slot.replaced]
    assert left
    assert all(words in slot.reason for slot in left)
    assert words in plan.sentence


def test_the_sentences_of_all_some_and_none() -> None:
    def sentence(family: str) -> str:
        return KVCacheBuilder.plan(model_of(family), SKVQ).sentence

    assert sentence("llama") == "All 3 slots use this cache."
    assert sentence("gemma3_text").startswith("1 of 3 slots use this cache; the others: ")
    assert sentence("mamba").startswith("This model has no KV cache to compress: ")


class _Slots:
    """A model that only knows its cache list."""

    def __init__(self, *slots: Any) -> None:
        self.slots = slots
        self.layers = slots

    def make_cache(self) -> list[Any]:
        return list(self.slots)


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
    assert "_OwnKVCache" in reasons[0]
    assert reasons[1] == "several caches in one slot"


def test_latent_attention_is_left_alone_by_all_but_the_plain_method() -> None:
    latent = type("Model", (_Slots,), {"__module__": "mlx_lm.models.deepseek_v3"})(KVCache())
    assert KVCacheBuilder.plan(latent, SKVQ).replaced == 0
    assert "latent" in KVCacheBuilder.plan(latent, SKVQ).slots[0].reason
    assert KVCacheBuilder.plan(latent, KVCacheConfig(method="plain")).replaced == 1


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


@every_method
def test_stream_generate_counts_every_token_into_the_list(loaded: tuple[Any, Any], key: str) -> None:
    model, tokenizer = loaded
    made = KVCacheBuilder.for_model(model, KVCacheConfig(method=key) if key != "affine" else _affine())
    read = len(tokenizer.encode(PROMPT))
    for count, answer in enumerate(
        mlx_lm.stream_generate(model, tokenizer, PROMPT, max_tokens=8, prompt_cache=made), 1
    ):
        assert answer.generation_tokens == count
    assert {slot.offset for slot in made} == {read + 8}


def _affine() -> KVCacheConfig:
    return KVCacheConfig(method="affine", affine_group_size=32)


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


@every_family
def test_every_family_computes_through_the_list(family: str) -> None:
    """Fed in blocks that cross the frontier, then token by token; the foreign slots work as ever."""
    model = model_of(family)
    made = KVCacheBuilder.for_model(model, SKVQ)
    tokens = mx.arange(40)[None] % 250
    for start, end in ((0, 13), (13, 37), (37, 38), (38, 39), (39, 40)):
        logits = model(tokens[:, start:end], cache=made)
        mx.eval(logits)
        assert mx.isfinite(logits).all().item()
    ours = [slot for slot in made if isinstance(slot, SKVQKVCache)]
    assert all(slot.offset == 40 and slot.frontier == 32 for slot in ours)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next", "deepseek_v2"])
def test_eight_bits_stay_close_to_the_uncompressed_answer(family: str) -> None:
    model = model_of(family)
    tokens = mx.arange(60)[None] % 250
    near = KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=8, skvq_bits_value=8)
    ours = model(tokens, cache=KVCacheBuilder.for_model(model, near))
    theirs = model(tokens, cache=make_prompt_cache(model))
    two = model(tokens, cache=KVCacheBuilder.for_model(model, SKVQ))
    apart = mx.abs(ours - theirs).max().item()
    assert 0 < apart < 0.1 * mx.abs(theirs).max().item()
    assert apart < mx.abs(two - theirs).max().item()


def test_models_are_not_changed_by_building(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = dict(vars(type(model)))
    KVCacheBuilder.for_model(model, SKVQ)
    assert vars(type(model)) == before
    assert [type(slot) for slot in make_prompt_cache(model)] == [KVCache] * 3
