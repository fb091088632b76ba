"""Three states of fit, each with its figure."""

from dataclasses import replace

import pytest

from studio.core.fit import FITS, TIGHT, TOO_LARGE, fit_of, planned, rounded
from tests.studio.ui.fake_engine import MODELS
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.planning import Machine

QWEN = MODELS[1]
SKVQ = KVCacheConfig("skvq")


def machine(gigabytes: float, metal: bool = True) -> Machine:
    return Machine(round(gigabytes * 1e9), "as given", metal)


def test_with_room_for_the_whole_context_it_fits() -> None:
    fit = fit_of(QWEN, SKVQ, machine(16), 0.85)
    assert fit is not None and (fit.state, fit.words, fit.tokens) == (FITS, "Fits", 40960)
    need = planned(QWEN, machine(16), 0.85).need(SKVQ, 40960)
    assert need is not None and f"{need.total / 1e9:.1f} GB, predicted" in fit.sentence


def test_what_a_cache_setting_saves_decides() -> None:
    plain, compressed = fit_of(QWEN, None, machine(9), 0.85), fit_of(QWEN, SKVQ, machine(9), 0.85)
    assert plain is not None and compressed is not None
    assert (plain.state, compressed.state) == (TIGHT, FITS)
    assert 1024 < plain.tokens < 40960
    need = planned(QWEN, machine(9), 0.85).need(None, plain.tokens)
    assert need is not None and 0.999 * 9e9 * 0.85 < need.total <= 9e9 * 0.85
    assert f"about {rounded(plain.tokens):,} tokens" in plain.words and "40,960" in plain.sentence


def test_weights_beyond_the_limit_do_not_fit_whatever_the_setting() -> None:
    for config in (None, SKVQ):
        fit = fit_of(QWEN, config, machine(5), 0.85)
        assert fit is not None and fit.state == TOO_LARGE and fit.tokens == 0
        assert fit.words.startswith("Will not fit: ") and "4.2 GB may be used" in fit.sentence
        wider = fit_of(QWEN, config, machine(5), 1.0)
        assert wider is not None and wider.state == TIGHT


def test_a_model_that_names_no_context_fits_as_far_as_memory_goes() -> None:
    free = replace(QWEN, context=None)
    fit = fit_of(free, SKVQ, machine(16), 0.85)
    assert fit is not None and fit.state == FITS and fit.tokens > 40960
    assert f"about {rounded(fit.tokens):,} tokens" in fit.sentence and "no longest context" in fit.sentence
    small = fit_of(free, SKVQ, machine(5), 0.85)
    assert small is not None and small.state == TOO_LARGE


@pytest.mark.parametrize("info", [MODELS[3], replace(QWEN, size_bytes=0), replace(QWEN, slots=None)])
def test_what_is_unknown_is_not_guessed(info: object) -> None:
    assert fit_of(info, SKVQ, machine(16), 0.85) is None


@pytest.mark.parametrize(("tokens", "told"), [(0, 0), (7, 7), (999, 990), (12_345, 12_000), (40_960, 40_000)])
def test_a_prediction_has_two_digits(tokens: int, told: int) -> None:
    assert rounded(tokens) == told
