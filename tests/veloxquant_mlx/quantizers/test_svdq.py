"""A head's basis, its rank, and the bits of its latent channels."""

import math

import mlx.core as mx
import numpy as np
import pytest

from veloxquant_mlx.quantizers.svdq import DISTORTION, Basis, Moments, averaged, schedule_bits, water_fill


def keys(rows: int = 400, size: int = 16, rank: int = 4, seed: int = 0) -> np.ndarray:
    """Rows [rows, size] with most of their energy in ``rank`` directions, around an offset."""
    source = np.random.default_rng(seed)
    latents = source.normal(0, 1, (rows, rank)) * np.arange(rank, 0, -1)
    found: np.ndarray = latents @ source.normal(0, 1, (rank, size)) + source.normal(0, 0.01, (rows, size)) + 3
    return found


def covariance(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(axis=0)
    found: np.ndarray = centred.T @ centred / len(rows)
    return found


def test_the_basis_spans_what_numpy_s_svd_of_the_centred_rows_spans() -> None:
    rows = keys()
    _, singular, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    basis = Basis.of(covariance(rows))
    ours = basis.directions[:, :4]
    assert np.abs(ours @ ours.T - right[:4].T @ right[:4]).max() < 1e-6
    assert np.allclose(basis.energies, singular**2 / len(rows), atol=1e-9)


def test_directions_are_orthonormal_and_energies_fall() -> None:
    for queries in (None, covariance(keys(seed=1))):
        basis = Basis.of(covariance(keys()), queries, 0.5)
        assert np.allclose(basis.directions.T @ basis.directions, np.eye(16), atol=1e-9)
        assert (np.diff(basis.energies) <= 1e-12).all()
        assert basis.spectrum.sum() == pytest.approx(1)


def test_svd_takes_over_where_the_eigen_decomposition_does_not_converge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = Basis.of(covariance(keys()))

    def fail(_: np.ndarray) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "eigh", fail)
    found = Basis.of(covariance(keys()))
    assert np.allclose(found.energies, expected.energies, atol=1e-9)
    assert np.abs(np.abs(found.directions[:, 0] @ expected.directions[:, 0]) - 1) < 1e-9


def test_the_rank_is_the_smallest_that_holds_the_energy() -> None:
    basis = Basis(np.eye(4), np.array([6.0, 3.0, 0.9, 0.1]))
    ranks = [basis.rank_for(share) for share in (0.5, 0.6, 0.61, 0.9, 0.95, 0.99, 1.0)]
    assert ranks == [1, 1, 2, 2, 3, 3, 4]


def test_keys_without_any_energy_have_a_basis_and_rank_one() -> None:
    basis = Basis.of(np.zeros((8, 8)))
    assert np.allclose(basis.directions.T @ basis.directions, np.eye(8))
    assert basis.rank_for(0.5) == 4
    assert np.isfinite(basis.spectrum).all()


def test_queries_raise_the_directions_they_look_along() -> None:
    of_keys = np.diag([4.0, 1.0, 0.5, 0.25])
    of_queries = np.diag([0.01, 0.01, 0.01, 100.0])
    alone, weighed = Basis.of(of_keys), Basis.of(of_keys, of_queries, 1.0)
    assert np.abs(alone.directions[:, 0]).argmax() == 0
    assert np.abs(weighed.directions[:, 0]).argmax() == 3
    assert np.allclose(Basis.of(of_keys, of_queries, 0.0).energies, alone.energies)


def plane_turns(count: int) -> np.ndarray:
    """Rotations of the first two of three channels, evenly around the circle."""
    angles = np.arange(count) * 2 * math.pi / count
    found = np.zeros((count, 3, 3))
    found[:, 0, 0] = found[:, 1, 1] = np.cos(angles)
    found[:, 0, 1], found[:, 1, 0] = np.sin(angles), -np.sin(angles)
    found[:, 2, 2] = 1
    return found


def test_averaged_moments_are_those_of_the_rows_at_all_the_positions() -> None:
    rows = np.random.default_rng(3).normal([5, 0, 1], [1, 0.1, 0.5], (200, 3))
    turns = plane_turns(12)
    later = np.concatenate([rows @ turn for turn in turns])
    found = Moments.of(mx.array(rows[None].astype(np.float32))).averaged(mx.array(turns.astype(np.float32)))
    assert np.allclose(np.array(found.mean)[0], later.mean(axis=0), atol=1e-4)
    assert np.allclose(np.array(found.covariance)[0], covariance(later), atol=1e-3)


def test_turning_around_a_circle_makes_its_two_channels_alike() -> None:
    moment = mx.array([[[9.0, 0, 0], [0, 1, 0], [0, 0, 4]]])
    found = np.array(averaged(moment, mx.array(plane_turns(16).astype(np.float32))))[0]
    assert np.allclose(found, np.diag([5, 5, 4]), atol=1e-4)


@pytest.mark.parametrize(
    ("schedule", "rank", "expected"),
    [
        ((8, 4, 2, 1, 1, 0, 0, 0), 8, (8, 4, 2, 1, 1, 0, 0, 0)),
        ((8, 4, 2, 1, 1, 0, 0, 0), 16, (8, 8, 4, 4, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)),
        ((4, 2, 0), 7, (4, 4, 2, 2, 0, 0, 0)),
        ((8, 4, 2, 1, 1, 0, 0, 0), 6, (8, 4, 2, 1, 1, 1)),
        ((8, 4, 2, 1, 1, 0, 0, 0), 3, (8, 4, 2)),
        ((2,), 3, (2, 2, 2)),
    ],
)
def test_a_schedule_is_dealt_out_in_equal_contiguous_groups(
    schedule: tuple[int, ...], rank: int, expected: tuple[int, ...]
) -> None:
    assert schedule_bits(schedule, rank) == expected


@pytest.mark.parametrize("budget", [1.5, 8, 32, 64, 150])
@pytest.mark.parametrize("overhead", [0.0, 0.25, 1.0])
def test_water_filling_keeps_to_its_budget_and_leaves_no_step_untaken(budget: float, overhead: float) -> None:
    energies = 0.8 ** np.arange(32)
    bits = water_fill(energies, budget, overhead)
    stored = [width for width in bits if width]
    spent = sum(stored) + overhead * len(stored)
    if budget >= 2 + overhead:
        assert spent <= budget + 1e-9
        assert set(bits) <= set(DISTORTION)
    steps = [b - a for a in DISTORTION for b in DISTORTION if b > a]
    if spent + min(steps) + overhead <= budget:
        assert all(width == max(DISTORTION) for width in bits)
    assert bits[0] == max(bits)


def test_water_filling_leaves_the_widest_out_of_a_small_budget() -> None:
    energies = 0.5 ** np.arange(32)
    assert max(water_fill(energies, 3.9 * 32, 0.25)) == 4
    assert max(water_fill(energies, 4 * 32, 0.25)) == 8


def test_water_filling_gives_nothing_to_channels_without_energy() -> None:
    energies = np.array([10.0, 5.0, 1.0] + [0.0] * 13)
    assert water_fill(energies, 1000, 0.5) == (8, 8, 8) + (0,) * 13


def test_water_filling_beats_the_same_bits_for_all_on_a_falling_spectrum() -> None:
    energies = 0.85 ** np.arange(64)
    bits = water_fill(energies, 2 * 64, 0.0)
    error = sum(energy * DISTORTION[width] for energy, width in zip(energies, bits, strict=True))
    assert error < 0.25 * energies.sum() * DISTORTION[2]
