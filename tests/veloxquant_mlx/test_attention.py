"""Attention on codes is put into one model, changes nothing else, and is taken out again."""

import gc
import subprocess
import sys
from importlib import import_module

import mlx.core as mx
import pytest
from mlx_lm.models import base as mlx_lm_base

from tests.tiny import tiny_model
from veloxquant_mlx import KVCacheBuilder, KVCacheConfig, attention
from veloxquant_mlx.cache.base import CompressedKVCache, PendingRows

CONFIG = KVCacheConfig(method="skvq", skvq_window=16, skvq_bits_key=8, skvq_bits_value=8)
ON_CODES = ("llama", "qwen2", "qwen3", "gemma3_text", "qwen3_next", "deepseek_v2")


@pytest.fixture(autouse=True)
def nothing_left_from_others() -> None:
    """Models of other tests may still wait to be collected."""
    for key in list(attention._enabled):
        attention._release(key)


def logits(model: object, steps: int = 3) -> mx.array:
    caches = KVCacheBuilder.for_model(model, CONFIG)
    found = [model(mx.arange(40)[None] % 250, cache=caches)[:, -1]]  # type: ignore[operator]
    found += [model(mx.array([[step]]), cache=caches)[:, -1] for step in range(steps)]  # type: ignore[operator]
    return mx.concatenate(found)


@pytest.mark.parametrize("family", ON_CODES)
def test_results_agree_with_decoded_rows(family: str) -> None:
    model = tiny_model(family)
    decoded = logits(model)
    with attention.attention_on_codes(model) as reason:
        assert reason is None
        ours = [c for c in KVCacheBuilder.for_model(model, CONFIG) if isinstance(c, CompressedKVCache)]
        assert ours
        assert all(cache.on_codes for cache in ours)
        coded = logits(model)
    assert mx.abs(coded - decoded).max().item() < 0.02 * mx.abs(decoded).max().item()


@pytest.mark.parametrize("family", ["llama", "gemma2", "mamba"])
def test_nothing_stays_behind(family: str) -> None:
    model = tiny_model(family)
    module = import_module(f"mlx_lm.models.{family}")
    before = getattr(module, attention.NAME, None)
    with attention.attention_on_codes(model):
        pass
    assert getattr(module, attention.NAME, None) is before
    assert not attention.is_enabled(model)
    assert not any(
        cache.on_codes
        for cache in KVCacheBuilder.for_model(model, CONFIG)
        if isinstance(cache, CompressedKVCache)
    )


def assert_untouched() -> None:
    llama = import_module("mlx_lm.models.llama")
    assert llama.scaled_dot_product_attention is mlx_lm_base.scaled_dot_product_attention


def test_it_is_not_there_on_import() -> None:
    code = (
        "import veloxquant_mlx.attention, mlx_lm.models.llama as llama, mlx_lm.models.base as base\n"
        "assert llama.scaled_dot_product_attention is base.scaled_dot_product_attention"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_models_of_a_family_do_not_take_it_from_each_other() -> None:
    first, second = tiny_model("llama"), tiny_model("llama", seed=1)
    attention.enable(first)
    attention.enable(second)
    attention.disable(first)
    assert attention.is_enabled(second)
    assert mx.isfinite(logits(second)).all().item()
    attention.disable(second)
    assert_untouched()


def test_a_model_that_is_gone_takes_it_along() -> None:
    model = tiny_model("llama")
    attention.enable(model)
    del model
    gc.collect()
    assert_untouched()


@pytest.mark.parametrize(("family", "reason"), [("gemma2", "caps"), ("mamba", "common attention")])
def test_a_family_that_needs_the_rows_says_why(family: str, reason: str) -> None:
    assert reason in (attention.enable(tiny_model(family)) or "")


def test_attention_that_looks_at_the_rows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("mlx_lm.models.llama")
    real = module.Attention.__call__

    def looking(self: object, x: mx.array, mask: object = None, cache: object = None) -> mx.array:
        out = real(self, x, mask, cache)
        if isinstance(cache, CompressedKVCache) and cache.on_codes:
            raise TypeError("rows wanted")
        return out

    monkeypatch.setattr(module.Attention, "__call__", looking)
    model = tiny_model("llama")
    assert "needs the rows themselves" in (attention.enable(model) or "")
    assert not attention.is_enabled(model)


def test_learned_sinks_are_answered_from_decoded_rows() -> None:
    model = tiny_model("llama")
    with attention.attention_on_codes(model):
        cache = KVCacheBuilder.for_model(model, CONFIG)[0]
        keys = mx.random.normal((1, 2, 20, 32), key=mx.random.key(0))
        rows = cache.update_and_fetch(keys, keys)
        assert isinstance(rows[0], PendingRows)
        query, sinks = mx.ones((1, 4, 1, 32)), mx.array([0.5, 1.0, 1.5, 2.0])
        module = import_module("mlx_lm.models.llama")
        got = module.scaled_dot_product_attention(query, *rows, cache, scale=1.0, mask=None, sinks=sinks)
        wanted = mx.fast.scaled_dot_product_attention(
            query,
            cache.key_side.rows(mx.float32),
            cache.value_side.rows(mx.float32),
            scale=1.0,
            mask=None,
            sinks=sinks,
        )
    assert mx.allclose(got, wanted, atol=1e-6).item()
