"""A conversation replayed through the uncompressed cache, against plain arithmetic."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.tiny import tiny_folder
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import KeptRows, Replayed, ReplayStep, Spoken, replay
from veloxquant_mlx.fidelity.slots import each_slot, slot_fidelities
from veloxquant_mlx.generation import generate
from veloxquant_mlx.models.load import LoadedModel, load_model
from veloxquant_mlx.progress import silent
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep

SKVQ = KVCacheConfig("skvq", skvq_window=16, skvq_bits_key=2, skvq_bits_value=2)
PLAIN = KVCacheConfig("plain")
PROMPT = np.random.default_rng(5).integers(0, 250, 90).tolist()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"), silent)


@pytest.fixture(scope="module")
def model(loaded: LoadedModel) -> Any:
    return loaded.model


@pytest.fixture(scope="module")
def tokenizer(loaded: LoadedModel) -> Any:
    return loaded.tokenizer


def say(
    model: Any, tokenizer: Any, config: KVCacheConfig, tokens: int = 40, **told: Any
) -> tuple[Spoken, list[mx.array]]:
    """A reply with what is kept of it, and the rows themselves."""
    kept, rows = KeptRows(), []

    def keep(row: mx.array) -> None:
        rows.append(row)
        kept.add(row)

    caches = KVCacheBuilder.for_model(model, config)
    *_, end = generate(
        model, tokenizer, caches, PROMPT, max_tokens=tokens, sampling=Sampling(**told), keep=keep
    )
    assert isinstance(end, FinishedStep)
    return Spoken(len(PROMPT), end.tokens, kept), rows


def replayed(model: Any, spoken: Spoken, block: int = 128) -> Replayed:
    *steps, end = replay(model, [*PROMPT, *spoken.tokens], [spoken], block=block)
    assert isinstance(end, Replayed)
    assert [step.done for step in steps if isinstance(step, ReplayStep)] == list(end.bounds[1:])
    return end


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def test_the_rows_kept_are_those_the_tokens_were_chosen_from(model: Any, tokenizer: Any) -> None:
    spoken, rows = say(model, tokenizer, SKVQ)
    assert len(rows) == len(spoken.tokens) == spoken.compared
    assert [int(row.argmax().item()) for row in rows] == list(spoken.tokens)
    caches = KVCacheBuilder.for_model(model, SKVQ)
    model(mx.array(PROMPT[:-1])[None], cache=caches)
    for fed, row in zip([PROMPT[-1], *spoken.tokens], rows, strict=False):
        logits = np.array(model(mx.array([[fed]]), cache=caches)[0, -1])
        np.testing.assert_allclose(np.array(row), log_softmax(logits), atol=4e-3)
    read = np.array(spoken.rows.read(3, 7))
    np.testing.assert_array_equal(read, np.stack([np.array(row) for row in rows[3:7]]))


def test_figures_equal_a_straightforward_computation(model: Any, tokenizer: Any) -> None:
    spoken, rows = say(model, tokenizer, SKVQ, temperature=0.9, seed=3)
    tokens = [*PROMPT, *spoken.tokens]
    exact = log_softmax(np.array(model(mx.array(tokens)[None], cache=make_prompt_cache(model))[0]))
    (found,) = replayed(model, spoken, block=24).replies
    assert (found.start, found.length, len(found.tokens)) == (90, len(spoken.tokens), len(spoken.tokens))
    for at, (one, row) in enumerate(zip(found.tokens, rows, strict=True)):
        own, true = log_softmax(np.array(row)), exact[89 + at]
        chosen = spoken.tokens[at]
        assert one.token == chosen
        assert one.kl == pytest.approx((np.exp(true) * (true - own)).sum(), abs=2e-5)
        assert one.rank == 1 + (true > true[chosen]).sum()
        assert one.own_rank == 1 + (own > own[chosen]).sum()
        assert one.likelihood == pytest.approx(np.exp(true[chosen]), rel=1e-3)
        assert one.own_likelihood == pytest.approx(np.exp(own[chosen]), rel=1e-3)
        assert one.top == true.argmax()
        assert one.top_likelihood == pytest.approx(np.exp(true.max()), rel=1e-3)
        assert one.same_top1 == (true.argmax() == own.argmax())
    assert found.mean_kl > 1e-3, "two bits cost something"
    assert any(one.own_rank > 1 for one in found.tokens), "it was sampled"
    differing = [at for at, one in enumerate(found.tokens) if not one.same_top1]
    assert found.first_difference == (differing[0] if differing else None)


def test_a_penalty_is_not_part_of_the_distribution(model: Any, tokenizer: Any) -> None:
    _, plain = say(model, tokenizer, PLAIN, tokens=1)
    _, penalised = say(model, tokenizer, PLAIN, tokens=1, repetition_penalty=1.9)
    np.testing.assert_array_equal(np.array(plain[0]), np.array(penalised[0]))


def test_the_uncompressed_cache_agrees_with_itself(model: Any, tokenizer: Any) -> None:
    spoken, _ = say(model, tokenizer, PLAIN)
    (found,) = replayed(model, spoken).replies
    assert max(one.kl for one in found.tokens) < 1e-5
    assert {one.rank for one in found.tokens} == {1}
    assert found.first_difference is None
    assert found.same_top1 == 1


def test_slots_are_those_of_measure(model: Any, tokenizer: Any) -> None:
    """Rows and queries that the replay leaves give the very errors that the ruler gives."""
    spoken, _ = say(model, tokenizer, SKVQ)
    end = replayed(model, spoken)
    count = len(PROMPT) + len(spoken.tokens)
    assert all(query.queries.shape[2] == 32 for query in end.queries.values())
    caches = KVCacheBuilder.for_model(model, PLAIN)
    tokens = mx.array([*PROMPT, *spoken.tokens])[None]
    model(tokens, cache=caches)
    expected = slot_fidelities(model, SKVQ, caches, end.queries, end.bounds, silent)
    found = list(each_slot(model, SKVQ, end.rows.__getitem__, end.queries, end.bounds, sides=False))
    assert [one.slot for one in found] == [0, 1, 2]
    for one, other in zip(found, expected, strict=True):
        assert one.attention_error == pytest.approx(other.attention_error, rel=1e-3)
        assert one.attention_error and one.attention_error > 0.01
        assert one.keys is None and other.keys is not None
    assert end.rows[0] is not None and end.rows[0][0].shape == (1, 2, count, 32)


def test_what_is_kept_is_bounded_and_what_is_not_kept_is_not_compared(model: Any, tokenizer: Any) -> None:
    spoken, rows = say(model, tokenizer, SKVQ)
    width = rows[0].shape[0]
    few = KeptRows(memory=2 * width, most=9 * width)
    for row in rows:
        few.add(row)
    assert (few.count, few.nbytes) == (4, 8 * width)
    (found,) = replayed(model, Spoken(spoken.start, spoken.tokens, few)).replies
    assert (found.length, len(found.tokens)) == (len(rows), 4)
    (whole,) = replayed(model, spoken).replies
    assert [one.kl for one in found.tokens] == pytest.approx([one.kl for one in whole.tokens[:4]], abs=1e-6)


def test_a_full_disk_ends_the_keeping_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptRows()
    kept.add(mx.zeros(8, mx.float16))

    def refuse(_: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept._file, "write", refuse)
    kept.add(mx.zeros(8, mx.float16))
    kept.add(mx.zeros(8, mx.float16))
    assert kept.count == 1


def test_nan_is_a_sentence(model: Any, tokenizer: Any) -> None:
    spoken, _ = say(model, tokenizer, SKVQ, tokens=3)
    damaged = KeptRows()
    for _ in spoken.tokens:
        damaged.add(mx.full((spoken.rows.width,), mx.nan, mx.float16))
    with pytest.raises(VeloxQuantError, match="NaN"):
        replayed(model, Spoken(spoken.start, spoken.tokens, damaged))
