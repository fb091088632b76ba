"""Each slot by itself: attention error, bits used, distance to the limit."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.tiny import VOCABULARY, tiny_model
from veloxquant_mlx.attention import attention_modules
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.fidelity import SlotFidelity, measure, reverse_water_filling
from veloxquant_mlx.fidelity.capture import capture_queries
from veloxquant_mlx.fidelity.limit import covariance_eigenvalues
from veloxquant_mlx.progress import silent

AFFINE = KVCacheConfig("affine", affine_bits=3, affine_group_size=32)
SKVQ = KVCacheConfig("skvq", skvq_window=32, skvq_bits_key=4)
TOKENS = np.random.default_rng(3).integers(0, VOCABULARY - 3, 150).tolist()


def slots(model: Any, config: KVCacheConfig) -> tuple[SlotFidelity, ...]:
    return measure(
        model, TOKENS, [config], block=64, start=64, decode_steps=0, slots=True, progress=silent
    ).methods[0].slots  # fmt: skip


def reference_rows(model: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    caches = make_prompt_cache(model)
    for begin in range(0, 150, 64):
        model(mx.array(TOKENS[begin : begin + 64])[None], cache=caches)
        mx.eval([cache.state for cache in caches])
    return [tuple(np.array(rows) for rows in cache.keys_and_values()) for cache in caches]  # type: ignore[misc]


def round_trip(rows: np.ndarray) -> np.ndarray:
    parts = mx.quantize(mx.array(rows), group_size=32, bits=3)
    return np.array(mx.dequantize(*parts, group_size=32, bits=3))


def attend(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, scale: float) -> np.ndarray:
    repeats = queries.shape[1] // keys.shape[1]
    keys, values = (rows.repeat(repeats, axis=1).astype(np.float64) for rows in (keys, values))
    scores = queries.astype(np.float64) @ keys.swapaxes(2, 3) * scale
    length, rows = scores.shape[2:]
    later = np.arange(rows)[None] > np.arange(rows - length, rows)[:, None]
    scores = np.where(later, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


def test_equals_a_straightforward_computation() -> None:
    model = tiny_model()
    found = slots(model, AFFINE)
    caches = make_prompt_cache(model)
    model(mx.array(TOKENS[:128])[None], cache=caches)
    queries = capture_queries(model, caches, mx.array(TOKENS[128:])[None])
    assert [slot.slot for slot in found] == [0, 1, 2]
    for slot, exact in zip(found, reference_rows(model), strict=True):
        query = queries[slot.slot]
        damaged = [round_trip(rows) for rows in exact]
        asked = np.array(query.queries)
        assert asked.shape == (1, 4, 22, 32)
        expected = attend(asked, *exact, query.scale)
        error = np.linalg.norm(attend(asked, *damaged, query.scale) - expected) / np.linalg.norm(expected)
        assert slot.attention_error == pytest.approx(error, rel=1e-3)
        for side, rows, worse in zip((slot.keys, slot.values), exact, damaged, strict=True):
            assert side is not None
            # 3 bits a code and two float32 parameters for 32 of them.
            assert side.bits == 3 + 64 / 32
            squared = ((rows.astype(np.float64) - worse) ** 2).mean()
            limit = reverse_water_filling(covariance_eigenvalues(rows.astype(np.float64)), squared)
            assert side.limit_bits == pytest.approx(limit, rel=1e-4)
            assert side.distance == side.bits - side.limit_bits > 0
            assert side.relative_error == pytest.approx((squared / rows.var(axis=2).mean()) ** 0.5, rel=1e-3)


def test_only_coded_rows_count() -> None:
    for slot in slots(tiny_model(), SKVQ):
        # 150 tokens: 4 sinks, 124 coded, 22 in the tail. 2 bytes of order a channel, int32, in side data.
        assert slot.keys is not None and slot.values is not None
        assert slot.keys.bits == pytest.approx(4 + 1 + 32 / 124)
        assert slot.values.bits == pytest.approx(2 + 1 + 32 / 124)
        assert slot.keys.relative_error < slot.values.relative_error
        assert slot.keys.distance > 0 and slot.values.distance > 0


def test_nothing_compressed_nothing_to_say() -> None:
    for slot in slots(tiny_model(), KVCacheConfig("plain")):
        assert (slot.attention_error, slot.keys, slot.values) == (0, None, None)


def test_slots_of_others_are_left_out() -> None:
    found = slots(tiny_model("gemma3_text"), SKVQ)
    assert [slot.replaced for slot in found] == [False, False, True]
    assert found[0] == SlotFidelity(0, False)
    assert found[2].attention_error is not None and found[2].attention_error > 0


def test_a_family_with_its_own_attention_has_bits_but_no_attention_error() -> None:
    model = tiny_model("gemma2")
    assert not attention_modules(model)
    for slot in slots(model, SKVQ):
        assert slot.attention_error is None
        assert slot.keys is not None


def test_capturing_leaves_caches_and_modules_alone() -> None:
    model = tiny_model()
    caches = make_prompt_cache(model)
    model(mx.array(TOKENS[:30])[None], cache=caches)
    before = [tuple(np.array(rows) for rows in cache.keys_and_values()) for cache in caches]
    (module,) = attention_modules(model)
    original = module.scaled_dot_product_attention
    found = capture_queries(model, caches, mx.array(TOKENS[30:40])[None])
    assert sorted(found) == [0, 1, 2]
    assert all(query.key_shape == (1, 2, 40, 32) for query in found.values())
    assert module.scaled_dot_product_attention is original
    for cache, rows in zip(caches, before, strict=True):
        assert cache.offset == 30
        for one, two in zip(cache.keys_and_values(), rows, strict=True):
            np.testing.assert_array_equal(np.array(one), two)


def test_capturing_restores_when_the_model_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    (module,) = attention_modules(model)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(module, "scaled_dot_product_attention", fail)
    with pytest.raises(RuntimeError):
        capture_queries(model, make_prompt_cache(model), mx.array(TOKENS[:4])[None])
    assert module.scaled_dot_product_attention is fail


def test_nothing_is_patched_but_for_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    (module,) = attention_modules(model)
    original = module.scaled_dot_product_attention
    seen = []

    def watch(share: float | None, words: str) -> None:
        seen.append(module.scaled_dot_product_attention is original)

    measure(
        model, TOKENS, [SKVQ], block=64, start=64, slots=True, decode_steps=1, on_codes=False, progress=watch
    )
    assert all(seen)
