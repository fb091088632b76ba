"""The protocol on random models of three layers."""

import json
import math
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache, make_prompt_cache

from tests.tiny import VOCABULARY, tiny_model
from veloxquant_mlx import attention
from veloxquant_mlx.attention import attention_modules
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache import slot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import CacheError, Cancelled, VeloxQuantError
from veloxquant_mlx.fidelity import Measurement, measure

PLAIN = KVCacheConfig("plain")
AFFINE = KVCacheConfig("affine", affine_bits=2, affine_group_size=32)
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY - 3, 150).tolist()


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


def run(model: Any, *configs: KVCacheConfig, **settings: Any) -> Measurement:
    return measure(model, TOKENS, configs, **{"block": 32, "start": 50, "decode_steps": 3} | settings)


def test_plain_against_plain_is_the_same(model: Any) -> None:
    found = run(model, PLAIN)
    for row in found.rows:
        assert row.kl is not None
        assert (row.kl.mean, row.kl.median, row.kl.p99, row.same_top1) == (0, 0, 0, 1)
        assert row.problem is None
        assert row.positions == 100
        assert row.tokens == 150
        assert row.prefill is not None and row.decode is not None
        assert row.prefill.ratio > 0 and row.decode.ratio > 0
        assert (row.prefill.tokens, row.decode.tokens) == (150, 3)
    assert found.reference.prefill is not None and found.reference.prefill.ratio == 1
    assert found.reference.perplexity == found.methods[0].perplexity
    assert found.complete
    assert found.tokens_done == 150


@pytest.mark.parametrize("decode", [False, True])
def test_scores_equal_a_straightforward_computation(model: Any, decode: bool) -> None:
    found = run(model, AFFINE, decode=decode)
    bounds = [0, 32, *range(50, 151)] if decode else [0, 32, 64, 96, 128, 150]
    logits = []
    for caches in (make_prompt_cache(model), KVCacheBuilder.for_model(model, AFFINE)):
        parts = []
        for begin, end in pairwise(bounds):
            parts.append(model(mx.array(TOKENS[begin:end])[None], cache=caches)[0])
            mx.eval(parts)
        logits.append(np.array(mx.concatenate(parts), dtype=np.float64)[50:])
    p, q = (rows - np.log(np.exp(rows).sum(-1, keepdims=True)) for rows in logits)
    kl = (np.exp(p) * (p - q)).sum(-1)
    row = found.methods[0]
    assert row.scores is not None and row.kl is not None
    np.testing.assert_allclose(row.scores.kl, kl, rtol=1e-3, atol=1e-5)
    assert row.kl.mean == pytest.approx(kl.mean(), rel=1e-4)
    assert row.kl.mean > 0.01
    assert row.kl.median == pytest.approx(np.median(kl), rel=1e-3)
    assert row.kl.p99 == pytest.approx(np.percentile(kl, 99), rel=1e-3)
    assert row.same_top1 == (p.argmax(-1) == q.argmax(-1)).mean()
    positions = np.arange(99)
    for spoken, side in ((found.reference, p), (row, q)):
        expected = math.exp(-side[positions, TOKENS[51:]].mean())
        assert spoken.perplexity == pytest.approx(expected, rel=1e-4)


def test_scores_do_not_depend_on_where_start_lies_in_a_block(model: Any) -> None:
    early, late = run(model, AFFINE, start=10), run(model, AFFINE, start=75)
    assert early.methods[0].scores is not None and late.methods[0].scores is not None
    np.testing.assert_array_equal(early.methods[0].scores.kl[65:], late.methods[0].scores.kl)


def test_bytes_are_those_of_the_cache_after_the_text(model: Any) -> None:
    found = run(model, AFFINE)
    cache = KVCacheBuilder.for_model(model, AFFINE)
    for begin in range(0, 150, 32):
        model(mx.array(TOKENS[begin : min(150, begin + 32)])[None], cache=cache)
    expected = slot.snapshot(cache)
    row = found.methods[0]
    assert row.counted == expected.counted
    assert row.resident_bytes == expected.resident_bytes
    assert row.reference_bytes == expected.reference_bytes == found.reference.reference_bytes
    # Each array may be rounded up to the allocator's step.
    assert row.resident_bytes <= row.memory_growth <= row.resident_bytes * 1.1 + 16384
    assert found.reference.memory_growth >= found.reference.resident_bytes


def test_peaks_hold_the_cache_and_more(model: Any) -> None:
    for row in run(model, AFFINE).rows:
        assert row.prefill is not None and row.decode is not None
        assert row.prefill.peak_memory > row.resident_bytes
        assert row.decode.peak_memory > row.resident_bytes


def test_one_at_a_time_takes_decode_figures_from_the_text(model: Any) -> None:
    found = run(model, PLAIN, decode=True)
    for row in found.rows:
        assert row.prefill is not None and row.decode is not None
        assert (row.prefill.tokens, row.decode.tokens) == (50, 100)
    assert found.one_by_one


def test_no_decode_steps_no_decode_figures(model: Any) -> None:
    assert all(row.decode is None for row in run(model, PLAIN, decode_steps=0).rows)


class Stop:
    """Raises at the n-th call of progress."""

    def __init__(self, at: int, kind: type[BaseException]) -> None:
        self.left = at
        self.kind = kind

    def __call__(self, share: float | None, words: str) -> None:
        self.left -= 1
        if not self.left:
            raise self.kind


@pytest.mark.parametrize("kind", [Cancelled, KeyboardInterrupt])
@pytest.mark.parametrize("at", [8, 9])
def test_a_stop_keeps_what_all_have_read(model: Any, kind: type[BaseException], at: int) -> None:
    # Call 7 opens the fourth block for the reference, 8 for the method, 9 is the fifth.
    found = run(model, AFFINE, progress=Stop(at, kind))
    whole = run(model, AFFINE)
    done = 96 if at == 8 else 128
    assert not found.complete
    assert [row.tokens for row in found.rows] == [done, done]
    assert found.tokens_done == done
    assert [row.positions for row in found.rows] == [done - 50] * 2
    assert found.methods[0].scores is not None and whole.methods[0].scores is not None
    np.testing.assert_array_equal(found.methods[0].scores.kl, whole.methods[0].scores.kl[: done - 50])
    assert found.methods[0].prefill is not None and found.methods[0].prefill.tokens == done
    assert found.methods[0].decode is None


def test_a_stop_before_anything_is_scored_goes_through(model: Any) -> None:
    with pytest.raises(Cancelled):
        run(model, AFFINE, progress=Stop(2, Cancelled))


def test_a_stop_while_decoding_keeps_the_text(model: Any) -> None:
    calls: list[str] = []

    def stop(share: float | None, words: str) -> None:
        calls.append(words)
        if words.startswith("Decode step 2"):
            raise Cancelled

    found = run(model, AFFINE, progress=stop)
    assert not found.complete
    assert found.tokens_done == 150
    assert found.reference.decode is not None and found.reference.decode.tokens == 1


def test_progress_rises_to_one(model: Any) -> None:
    shares: list[float] = []
    run(model, AFFINE, slots=True, progress=lambda share, words: shares.append(share or 0.0))
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_method_that_cannot_go_on_leaves_and_the_others_stay(model: Any) -> None:
    wrong = KVCacheConfig("affine", affine_group_size=128)
    short = KVCacheConfig("skvq", skvq_max_ctx=100)
    found = run(model, wrong, short, AFFINE, slots=True)
    first, second, third = found.methods
    assert first.problem is not None and "128" in first.problem and first.tokens == 0
    assert first.kl is first.perplexity is first.prefill is None
    assert second.problem is not None and "max_ctx" in second.problem
    assert (second.tokens, second.positions) == (96, 46)
    assert second.prefill is not None and second.prefill.tokens == 96
    assert third.problem is None and third.positions == 100
    assert found.complete
    json.dumps(found.as_dict(positions=True), allow_nan=False)


def test_nan_through_a_cache_is_a_sentence(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = KVCache.update_and_fetch

    def damaged(self: Any, keys: mx.array, values: mx.array) -> Any:
        found = original(self, keys, values)
        return (found[0] * float("nan"), found[1]) if getattr(self, "damaged", False) else found

    made = []

    def for_model(model: Any, config: KVCacheConfig) -> list[Any]:
        made.append(config)
        caches = [config.make_cache(slot) for slot in range(3)]
        if len(made) == 2:
            caches[1].damaged = True
        return caches

    monkeypatch.setattr(KVCache, "update_and_fetch", damaged)
    monkeypatch.setattr(KVCacheBuilder, "for_model", staticmethod(for_model))
    found = run(model, PLAIN, PLAIN, on_codes=False)
    assert found.methods[0].problem == "The model answers with NaN at token 50."
    assert found.methods[1].problem is None and found.methods[1].positions == 100


def test_nan_without_any_cache_is_the_model_s() -> None:
    model = tiny_model()
    model.model.layers[1].self_attn.q_proj.weight *= float("nan")
    with pytest.raises(VeloxQuantError, match="NaN at token 50 without any compression"):
        run(model, AFFINE)


@pytest.mark.parametrize(
    "settings", [{"block": 0}, {"start": -1}, {"decode_steps": -1}, {"start": 150}, {"start": 1000}]
)
def test_refuses_what_cannot_be_scored(model: Any, settings: dict[str, int]) -> None:
    with pytest.raises(VeloxQuantError):
        run(model, **settings)


def test_memory_goes_back_and_nothing_stays_patched(model: Any) -> None:
    before = [(module, module.scaled_dot_product_attention) for module in attention_modules(model)]
    assert before
    run(model, AFFINE, slots=True)
    mx.clear_cache()
    held = mx.get_active_memory()
    run(model, AFFINE, slots=True)
    mx.clear_cache()
    assert mx.get_active_memory() - held < 4096
    for module, original in before:
        assert module.scaled_dot_product_attention is original


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("on_codes", [False, True])
def test_attention_is_afterwards_as_it_was(before: bool, on_codes: bool) -> None:
    model = tiny_model()
    if before:
        attention.enable(model)
    seen = set()
    found = run(
        model, KVCacheConfig("skvq", skvq_window=32), on_codes=on_codes, slots=True,
        progress=lambda share, words: seen.add(attention.is_enabled(model)),
    )  # fmt: skip
    assert seen == {on_codes}
    assert ("attend on codes" in found.attention) == on_codes
    assert attention.is_enabled(model) == before
    attention.disable(model)


def test_codes_and_decoded_rows_score_alike(model: Any) -> None:
    config = KVCacheConfig("skvq", skvq_window=32)
    coded, dense = (run(model, config, decode=True, on_codes=way).methods[0] for way in (True, False))
    assert coded.scores is not None and dense.scores is not None
    np.testing.assert_allclose(coded.scores.kl, dense.scores.kl, rtol=0.01, atol=1e-4)
    assert coded.counted == dense.counted


def test_a_family_that_needs_its_rows_says_so() -> None:
    found = run(tiny_model("gemma2"), KVCacheConfig("skvq", skvq_window=16), AFFINE)
    assert "caps its attention scores" in found.attention
    rows, packed = found.methods
    assert rows.problem is None and rows.kl is not None and rows.kl.mean > 0
    assert packed.problem is not None and "caps its attention scores" in packed.problem


def test_the_reference_s_own_failure_goes_through(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, keys: mx.array, values: mx.array) -> Any:
        raise CacheError("No.")

    monkeypatch.setattr(KVCache, "update_and_fetch", refuse)
    with pytest.raises(CacheError):
        run(model, AFFINE)


def test_records_are_json_ready(model: Any) -> None:
    found = run(model, AFFINE, slots=True)
    plain = found.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert "per_position" not in plain["methods"][0]
    one = found.as_dict(positions=True)["methods"][0]["per_position"]
    assert len(one["kl_nats"]) == len(one["same_top1"]) == len(one["nll_nats"]) == 100
    assert one["nll_nats"][-1] is None


@pytest.mark.parametrize("family", ["gemma2", "gemma3_text", "qwen3_next", "falcon_h1", "deepseek_v2"])
def test_other_families_run(family: str) -> None:
    found = run(tiny_model(family), KVCacheConfig("skvq", skvq_window=32), slots=True)
    assert found.methods[0].problem is None
    assert found.methods[0].positions == 100


@pytest.mark.starter
def test_the_starter_model_in_brief(starter_path: Any) -> None:
    from veloxquant_mlx.fidelity import cut, read_text
    from veloxquant_mlx.models.load import load_model

    loaded = load_model(starter_path)
    tokens = cut(loaded.tokenizer, read_text("hamlet"), 100, 96)
    found = measure(
        loaded.model, tokens, [KVCacheConfig("affine", affine_bits=8)],
        block=48, start=48, decode_steps=1, slots=True,
    )  # fmt: skip
    row = found.methods[0]
    assert row.kl is not None and 0 < row.kl.mean < 0.01
    assert row.same_top1 is not None and row.same_top1 > 0.9
    assert row.perplexity == pytest.approx(found.reference.perplexity, rel=0.05)
    errors = [slot.attention_error for slot in row.slots]
    assert len(errors) == 30 and all(error is not None and 0 < error < 0.05 for error in errors)
