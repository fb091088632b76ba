"""Reverse water-filling against closed forms."""

import numpy as np
import pytest

from veloxquant_mlx.fidelity.limit import covariance_eigenvalues, reverse_water_filling


@pytest.mark.parametrize("variance", [0.01, 1.0, 37.0])
@pytest.mark.parametrize("share", [0.5, 0.1, 2.0**-8])
def test_white_source(variance: float, share: float) -> None:
    bits = reverse_water_filling(np.full(64, variance), variance * share)
    assert bits == pytest.approx(0.5 * np.log2(1 / share))


def test_all_components_above_water_is_the_geometric_mean() -> None:
    variances = np.array([1.0, 2.0, 4.0, 8.0])
    geometric = 8.0 ** (1.5 / 3)
    assert reverse_water_filling(variances, 0.25) == pytest.approx(0.5 * np.log2(geometric / 0.25))


def test_components_below_water_get_no_bits() -> None:
    # Level 1: min(1, 16) + min(1, 0.5) over two components.
    assert reverse_water_filling([16.0, 0.5], 0.75) == pytest.approx(0.5 * np.log2(16.0) / 2)


def test_order_and_rounding_residue_do_not_matter() -> None:
    assert reverse_water_filling([0.5, 16.0, -1e-18], 0.5) == reverse_water_filling([16.0, 0.0, 0.5], 0.5)


def test_level_meets_the_distortion() -> None:
    variances = np.random.default_rng(0).gamma(0.5, 2.0, 200)
    for distortion in np.geomspace(1e-6, variances.mean() * 0.99, 20):
        bits = reverse_water_filling(variances, distortion)
        low, high = 0.0, variances.max()
        for _ in range(200):
            level = (low + high) / 2
            low, high = (level, high) if np.minimum(level, variances).mean() < distortion else (low, level)
        expected = np.maximum(0, 0.5 * np.log2(variances / level)).mean()
        assert bits == pytest.approx(expected, rel=1e-6)


def test_ends_of_the_range() -> None:
    assert reverse_water_filling([1.0, 3.0], 2.0) == 0
    assert reverse_water_filling([1.0, 3.0], 9.0) == 0
    assert reverse_water_filling([0.0, 0.0], 0.0) == 0
    assert reverse_water_filling([1.0, 0.0], 0.0) == float("inf")


@pytest.mark.parametrize("bad", [([], 1.0), ([1.0], -1.0), ([1.0], float("nan")), ([float("nan")], 1.0)])
def test_refuses_what_has_no_limit(bad: tuple[list[float], float]) -> None:
    with pytest.raises(ValueError, match="Reverse water-filling"):
        reverse_water_filling(*bad)


def test_eigenvalues_are_those_of_each_head_without_its_mean() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(2, 3, 500, 4)) * [1, 2, 3, 4] + rng.normal(size=(2, 3, 1, 4)) * 100
    expected = [
        np.linalg.eigvalsh(np.cov(rows[b, h], rowvar=False, bias=True)) for b in range(2) for h in range(3)
    ]
    np.testing.assert_allclose(np.sort(covariance_eigenvalues(rows)), np.sort(np.concatenate(expected)))
