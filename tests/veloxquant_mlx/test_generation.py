"""The stream of steps: their order, their ends, and the words of mlx_lm itself."""

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from tests.tiny import tiny_folder, tiny_model
from veloxquant_mlx import generation
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.generation import generate
from veloxquant_mlx.models.load import LoadedModel, load_model
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep, PrefillStep, Step, TokenStep

PLAIN = KVCacheConfig(method="plain")
SKVQ = KVCacheConfig(method="skvq", skvq_window=16)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(tiny_folder(tmp_path_factory.mktemp("models") / "llama"))


@pytest.fixture
def prompt(loaded: LoadedModel) -> list[int]:
    return list(loaded.tokenizer.encode("the inner thing is on the table and here is more of it"))


def steps_of(
    loaded: LoadedModel, tokens: list[int], config: KVCacheConfig = PLAIN, **words: Any
) -> list[Step]:
    cache = KVCacheBuilder.for_model(loaded.model, config)
    return list(generate(loaded.model, loaded.tokenizer, cache, tokens, **words))


def finished(steps: list[Step]) -> FinishedStep:
    assert isinstance(steps[-1], FinishedStep)
    return steps[-1]


class StopAt:
    """A stop condition that turns true with its ``count``-th question."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


def test_prefill_then_tokens_then_one_end(loaded: LoadedModel, prompt: list[int]) -> None:
    steps = steps_of(loaded, prompt, max_tokens=5, prefill_block=16)
    kinds = [type(step) for step in steps]
    blocks = -(-(len(prompt) - 1) // 16)
    assert kinds == [PrefillStep] * blocks + [TokenStep] * 5 + [FinishedStep]
    assert finished(steps).reason == "length"


@pytest.mark.parametrize("block", [1, 7, 16, 1000])
def test_blocks_add_up_to_all_but_the_last_token(loaded: LoadedModel, prompt: list[int], block: int) -> None:
    steps = steps_of(loaded, prompt, max_tokens=1, prefill_block=block)
    prefill = [step for step in steps if isinstance(step, PrefillStep)]
    done = [step.done for step in prefill]
    assert done == sorted(set(done))
    assert done[-1] == len(prompt) - 1
    assert all(b - a <= block for a, b in zip([0, *done], done, strict=False))
    assert {step.total for step in prefill} == {len(prompt)}
    assert [step.snapshot.tokens for step in prefill] == done


def test_one_token_needs_no_prefill(loaded: LoadedModel) -> None:
    steps = steps_of(loaded, [5], max_tokens=2)
    assert [type(step) for step in steps] == [TokenStep, TokenStep, FinishedStep]


@pytest.mark.parametrize("config", [PLAIN, SKVQ], ids=["plain", "skvq"])
@pytest.mark.parametrize("written", [1, 4])
def test_after_k_tokens_the_cache_holds_prompt_and_k(
    loaded: LoadedModel, prompt: list[int], config: KVCacheConfig, written: int
) -> None:
    cache = KVCacheBuilder.for_model(loaded.model, config)
    steps = list(generate(loaded.model, loaded.tokenizer, cache, prompt, max_tokens=written))
    end = finished(steps)
    assert {slot.offset for slot in cache} == {len(prompt) + written}
    assert end.snapshot.tokens == len(prompt) + written
    assert (end.prompt_tokens, end.reply_tokens) == (len(prompt), written)
    assert len(end.tokens) == written


def test_stopping_at_a_token_leaves_the_same_count(loaded: LoadedModel, prompt: list[int]) -> None:
    cache = KVCacheBuilder.for_model(loaded.model, PLAIN)
    # Asked once before each block, once before writing, then once per token.
    stop = StopAt(1 + 1 + 3)
    steps = list(generate(loaded.model, loaded.tokenizer, cache, prompt, stop=stop))
    end = finished(steps)
    assert (end.reason, end.reply_tokens) == ("stopped", 3)
    assert {slot.offset for slot in cache} == {len(prompt) + 3}


def test_the_token_steps_count_and_name_what_the_end_holds(loaded: LoadedModel, prompt: list[int]) -> None:
    steps = steps_of(loaded, prompt, max_tokens=6)
    tokens = [step for step in steps if isinstance(step, TokenStep)]
    assert [step.count for step in tokens] == [1, 2, 3, 4, 5, 6]
    assert tuple(step.token for step in tokens) == finished(steps).tokens
    assert [step.snapshot.tokens for step in tokens] == [len(prompt) + n for n in range(1, 7)]


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_every_token_s_text_enters_with_the_step_that_read_it(
    loaded: LoadedModel, prompt: list[int], block: int
) -> None:
    steps = steps_of(loaded, prompt, max_tokens=4, prefill_block=block)
    pieces: list[str] = []
    for step in steps[:-1]:
        assert not isinstance(step, FinishedStep)
        pieces += step.pieces
        assert len(pieces) == step.snapshot.tokens
    assert pieces == [loaded.tokenizer.decode([token]) for token in [*prompt, *finished(steps).tokens]]


def test_text_of_the_steps_is_the_start_of_the_reply(loaded: LoadedModel, prompt: list[int]) -> None:
    steps = steps_of(loaded, prompt, max_tokens=30)
    joined = "".join(step.text for step in steps if isinstance(step, TokenStep))
    assert joined
    assert finished(steps).text.startswith(joined)


@pytest.mark.parametrize("block", [5, 256])
def test_the_plain_cache_gives_mlx_lm_s_own_greedy_words(
    loaded: LoadedModel, prompt: list[int], block: int
) -> None:
    theirs = list(mlx_lm.stream_generate(loaded.model, loaded.tokenizer, prompt, max_tokens=40))
    ours = finished(steps_of(loaded, prompt, max_tokens=40, prefill_block=block))
    assert ours.text == "".join(answer.text for answer in theirs)
    assert ours.tokens == tuple(answer.token for answer in theirs)


def test_a_reply_carried_on_equals_one_read_at_once(loaded: LoadedModel, prompt: list[int]) -> None:
    cache = KVCacheBuilder.for_model(loaded.model, PLAIN)
    first = finished(list(generate(loaded.model, loaded.tokenizer, cache, prompt, max_tokens=5)))
    more = [7, 8, 9]
    carried = finished(list(generate(loaded.model, loaded.tokenizer, cache, more, max_tokens=5)))
    fresh = finished(steps_of(loaded, [*prompt, *first.tokens, *more], max_tokens=5))
    assert carried.tokens == fresh.tokens
    assert carried.prompt_tokens == 3


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_stop_is_heard_between_blocks(loaded: LoadedModel, prompt: list[int], asked: int) -> None:
    cache = KVCacheBuilder.for_model(loaded.model, SKVQ)
    words: dict[str, Any] = {"prefill_block": 8, "stop": StopAt(asked)}
    steps = list(generate(loaded.model, loaded.tokenizer, cache, prompt, **words))
    end = finished(steps)
    read = 8 * (asked - 1)
    assert (end.reason, end.text, end.prompt_tokens, end.reply_tokens) == ("stopped", "", read, 0)
    assert {slot.offset for slot in cache} == {read}


def test_stop_is_heard_after_the_last_block(loaded: LoadedModel) -> None:
    end = finished(steps_of(loaded, [1, 2, 3], stop=StopAt(2)))
    assert (end.reason, end.prompt_tokens, end.reply_tokens) == ("stopped", 2, 0)
    assert end.decode_speed is None


def test_the_context_ends_a_reply(loaded: LoadedModel, prompt: list[int]) -> None:
    context = len(prompt) + 4
    cache = KVCacheBuilder.for_model(loaded.model, PLAIN)
    words: dict[str, Any] = {"max_tokens": 50, "context": context}
    end = finished(list(generate(loaded.model, loaded.tokenizer, cache, prompt, **words)))
    assert end.reason == "context"
    assert {slot.offset for slot in cache} == {context}


def test_max_tokens_within_the_context_is_a_length(loaded: LoadedModel, prompt: list[int]) -> None:
    assert finished(steps_of(loaded, prompt, max_tokens=4, context=len(prompt) + 50)).reason == "length"


def test_a_prompt_that_fills_the_context_is_refused(loaded: LoadedModel, prompt: list[int]) -> None:
    with pytest.raises(VeloxQuantError, match="fills the model's context") as caught:
        steps_of(loaded, prompt, context=len(prompt))
    assert str(caught.value).endswith(".")


def test_the_model_s_end_token_ends_a_reply(loaded: LoadedModel, prompt: list[int]) -> None:
    expected = finished(steps_of(loaded, prompt, max_tokens=4)).tokens
    ends = loaded.tokenizer.eos_token_ids
    added = set(expected[2:3]) - set(ends)
    ends |= added
    try:
        end = finished(steps_of(loaded, prompt, max_tokens=50))
    finally:
        ends -= added
    assert end.reason == "stop"
    assert end.tokens == expected[: expected.index(expected[2]) + 1]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_weights_of_nan_give_a_sentence(loaded: LoadedModel, temperature: float) -> None:
    model = tiny_model()
    model.model.norm.weight = mx.full(model.model.norm.weight.shape, float("nan"))
    cache = KVCacheBuilder.for_model(model, PLAIN)
    with pytest.raises(VeloxQuantError, match="answered with NaN") as caught:
        list(generate(model, loaded.tokenizer, cache, [1, 2, 3], sampling=Sampling(temperature=temperature)))
    assert str(caught.value).endswith(".")


def test_a_temperature_changes_the_words_and_a_seed_brings_them_back(
    loaded: LoadedModel, prompt: list[int]
) -> None:
    def warm(seed: int | None) -> tuple[int, ...]:
        sampling = Sampling(temperature=2.0, seed=seed)
        return finished(steps_of(loaded, prompt, max_tokens=20, sampling=sampling)).tokens

    assert warm(4) == warm(4)
    assert len({warm(4), warm(5), warm(None), finished(steps_of(loaded, prompt, max_tokens=20)).tokens}) > 2


@pytest.mark.parametrize("only", [{"top_k": 1}, {"top_p": 0.01}, {"min_p": 1.0}])
def test_every_way_to_narrow_the_choice_ends_at_the_likeliest_token(
    loaded: LoadedModel, prompt: list[int], only: dict[str, float]
) -> None:
    narrow = Sampling(temperature=1.0, seed=1, **only)  # type: ignore[arg-type]
    greedy = finished(steps_of(loaded, prompt, max_tokens=8)).tokens
    assert finished(steps_of(loaded, prompt, max_tokens=8, sampling=narrow)).tokens == greedy


def test_more_of_the_likeliest_tokens_than_there_are_is_all_of_them(
    loaded: LoadedModel, prompt: list[int]
) -> None:
    wide = Sampling(temperature=1.0, top_k=loaded.model.args.vocab_size)
    assert finished(steps_of(loaded, prompt, max_tokens=3, sampling=wide)).reply_tokens == 3


def test_a_penalty_breaks_a_repetition(loaded: LoadedModel, prompt: list[int]) -> None:
    plain = finished(steps_of(loaded, prompt, max_tokens=40)).tokens
    fresh = finished(
        steps_of(loaded, prompt, max_tokens=40, sampling=Sampling(repetition_penalty=2.0))
    ).tokens
    assert len(set(fresh)) > len(set(plain))


def test_the_longest_reply_is_the_sampling_s_unless_told_otherwise(
    loaded: LoadedModel, prompt: list[int]
) -> None:
    end = finished(steps_of(loaded, prompt, sampling=Sampling(max_tokens=16)))
    assert (end.reply_tokens, end.reason) == (16, "length")


def test_a_reply_that_goes_on_keeps_the_space_between_its_words(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A detokenizer drops a space at the beginning of a text; in the middle it belongs there."""
    before, rest = ([*loaded.tokenizer.encode(text)] for text in ("ab", " cd"))
    fed = iter(rest)

    def play(*_: object, **words: Any) -> Iterator[tuple[int, None]]:
        for token in fed:
            words["sampler"](mx.zeros((1, 4)))
            yield token, None

    monkeypatch.setattr(generation, "generate_step", play)
    cache = KVCacheBuilder.for_model(loaded.model, PLAIN)
    steps = list(generate(loaded.model, loaded.tokenizer, cache, before, written=before))
    assert "".join(s.text for s in steps if isinstance(s, TokenStep)) == " cd"
    assert finished(steps).text == " cd"


def test_times_are_told_only_where_there_are_any(loaded: LoadedModel, prompt: list[int]) -> None:
    one = finished(steps_of(loaded, prompt, max_tokens=1))
    assert one.prefill_speed is not None
    assert one.decode_speed is None
    assert finished(steps_of(loaded, prompt, max_tokens=3)).decode_speed is not None


def test_nothing_is_read_before_the_first_step_is_asked_for(loaded: LoadedModel, prompt: list[int]) -> None:
    cache = KVCacheBuilder.for_model(loaded.model, PLAIN)
    steps: Iterator[Step] = generate(loaded.model, loaded.tokenizer, cache, prompt)
    assert {slot.offset for slot in cache} == {0}
    assert isinstance(next(steps), PrefillStep)


def test_snapshots_hold_numbers_and_no_arrays(loaded: LoadedModel, prompt: list[int]) -> None:
    end = finished(steps_of(loaded, prompt, SKVQ, max_tokens=2))
    for layer in end.snapshot.layers:
        assert all(type(value) in (int, float) for value in layer.gauges.values())
        assert type(layer.resident_bytes) is int
        assert all(type(value) is int for value in layer.counted.as_dict().values())
    assert end.snapshot.ratio is not None
    assert finished(steps_of(loaded, [1, 2, 3], SKVQ, max_tokens=2)).snapshot.ratio is None


def test_a_model_without_kv_cache_writes_too(loaded: LoadedModel) -> None:
    model = tiny_model("mamba")
    cache = KVCacheBuilder.for_model(model, SKVQ)
    steps = list(generate(model, loaded.tokenizer, cache, list(range(1, 20)), max_tokens=3, prefill_block=8))
    assert finished(steps).reply_tokens == 3
    assert finished(steps).snapshot.counted.foreign == finished(steps).snapshot.resident_bytes > 0
