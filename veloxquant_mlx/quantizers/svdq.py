"""SVDq's array functions: a basis for a head's keys, its rank, and the bits of each latent channel.

After "SVDq: 1.25-bit and 410x Key Cache Compression for LLM Attention" (arXiv:2502.15304), adapted: the
basis is learnt from the first rows of each chat, not from a calibration corpus. Two things go beyond the
paper. Keys arrive rotated by their positions, so rows of the first few hundred positions do not show where
later ones will lie: the covariance can be averaged over the rotations to come (``averaged``). And what an
error in a key costs depends on the queries it meets, so their covariance can take part (``Basis.of``).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import mlx.core as mx
import numpy as np

DISTORTION = {0: 1.0, 2: 0.1175, 4: 0.0095, 8: 0.00003}
"""Squared error of a unit Gaussian at the widths that ``water_fill`` hands out.

Widths between these lowered no divergence that was measured, and each width takes a product of its own per
step; 8 is left out where the budget is below 4 bits a channel, for the same reason.
"""

_QUERY_FLOOR = 0.05
"""Share of an even spread in the queries' covariance: the next ones may look where none looked yet."""
_ROUNDING = 2.0**-22
"""Relative energy of the error of numbers of 11 bits."""


class Basis(NamedTuple):
    """An orthonormal basis of one head's key space, most telling direction first."""

    directions: np.ndarray
    """float64, [D, D]; column ``i`` is direction ``i``."""
    energies: np.ndarray
    """float64, [D], falling: mean squared length along each direction, weighted where queries took part."""

    @classmethod
    def of(cls, covariance: np.ndarray, queries: np.ndarray | None = None, weight: float = 0.0) -> "Basis":
        """The basis of keys with a covariance [D, D].

        Args:
            queries: second moment of the queries, [D, D], or None.
            weight: 0 to 1, the exponent with which a direction's query energy multiplies its key energy.
        """
        covariance = _usable(covariance)
        if queries is None or not weight:
            energies, directions = _eigen(covariance)
            return cls(directions, np.maximum(energies, 0))
        size = len(covariance)
        queries = _per_trace(_usable(queries)) * size + _QUERY_FLOOR * np.eye(size)
        # Eigenvectors of the sum keep both the directions keys differ in and those queries look along apart.
        _, directions = _eigen(_per_trace(covariance) + _per_trace(queries))
        of_keys, of_queries = (
            np.maximum((directions * (moment @ directions)).sum(axis=0), 0)
            for moment in (covariance, queries)
        )
        energies = of_keys * of_queries**weight
        order = np.argsort(-energies, kind="stable")
        return cls(directions[:, order], energies[order])

    @property
    def spectrum(self) -> np.ndarray:
        """Share of each direction in the energy; sums to 1."""
        total = self.energies.sum()
        return self.energies / total if total > 0 else np.full(len(self.energies), 1 / len(self.energies))

    def rank_for(self, share: float) -> int:
        """Fewest leading directions that hold this share of the energy, at least 1."""
        held = np.cumsum(self.spectrum)
        return min(int(np.searchsorted(held, share - 1e-12)) + 1, len(held))


def _usable(moment: np.ndarray) -> np.ndarray:
    """Symmetric and finite: what an eigen-decomposition of rounded sums needs."""
    return np.nan_to_num((moment + moment.T) / 2)


def _per_trace(moment: np.ndarray) -> np.ndarray:
    trace = np.trace(moment)
    return moment / trace if trace > 0 else moment


def _eigen(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, falling, and eigenvectors in columns; by SVD where the first way does not converge."""
    try:
        values, vectors = np.linalg.eigh(moment)
        return values[::-1], np.ascontiguousarray(vectors[:, ::-1])
    except np.linalg.LinAlgError:
        vectors, values, _ = np.linalg.svd(moment)
        return values, vectors


class Moments(NamedTuple):
    """Mean and covariance of the keys of several heads, float32."""

    mean: mx.array
    """[H, D]."""
    covariance: mx.array
    """[H, D, D]."""

    @classmethod
    def of(cls, rows: mx.array) -> "Moments":
        """Of rows [H, n, D]."""
        rows = rows.astype(mx.float32)
        mean = rows.mean(axis=1)
        centred = rows - mean[:, None]
        return cls(mean, centred.swapaxes(-1, -2) @ centred / rows.shape[1])

    def averaged(self, turns: mx.array) -> "Moments":
        """As they are expected over later positions, where the same rows would lie turned.

        A mean that turns spreads out, which is the energy that a basis of the first rows misses.

        Args:
            turns: rotations to positions, [n, D, D]; a row ``k`` lies at ``k @ turn``.
        """
        means = self.mean[None, :, None] @ turns[:, None]  # [n, H, 1, D]
        mean = means.mean(axis=0)
        apart = means - mean
        spread = (apart.swapaxes(-1, -2) @ apart).mean(axis=0)
        return Moments(mean[:, 0], averaged(self.covariance, turns) + spread)


def averaged(moments: mx.array, turns: mx.array) -> mx.array:
    """Second moments [H, D, D] averaged over rotations [n, D, D]."""
    turns = turns[:, None]
    return (turns.swapaxes(-1, -2) @ moments[None] @ turns).mean(axis=0)


def schedule_bits(schedule: Sequence[int], rank: int) -> tuple[int, ...]:
    """Bits of each of ``rank`` latent channels: equal contiguous groups, one entry of the schedule each.

    A rank with fewer channels than groups takes the entries that are not 0 instead (paper, Eq. 6).
    """
    entries = list(schedule) if rank >= len(schedule) else [bits for bits in schedule if bits]
    if rank < len(entries):
        return tuple(entries[:rank])
    edges = [group * rank // len(entries) for group in range(len(entries) + 1)]
    return tuple(
        bits for bits, start, end in zip(entries, edges, edges[1:], strict=False) for _ in range(end - start)
    )


def water_fill(energies: np.ndarray, budget: float, overhead: float) -> tuple[int, ...]:
    """Bits of each channel that bring the squared error lowest within a budget (reverse water-filling).

    Channels with little energy get 0. Whole widths only: the step with the most error taken per bit is
    taken again and again.

    Args:
        energies: falling, [n]. budget: bits of all channels of one row.
        overhead: bits per row that the parameters of a stored channel take.
    """
    widths = [width for width in DISTORTION if width <= 4 or budget >= 4 * len(energies)]
    # What lies below the rounding of 16-bit rows is no energy of the keys.
    left, gains = budget, np.where(energies > energies.sum() * _ROUNDING, energies, 0).tolist()
    # A step to the next width takes more error per bit than a longer one, and of the channels of one width
    # the one with the most energy gains most: the wider come first, so how many there are says all.
    steps = [
        (wider - width + (0 if width else overhead), DISTORTION[width] - DISTORTION[wider])
        for width, wider in pairwise(widths)
    ]
    ends = [len(gains), *(0 for _ in steps)]  # channels of at least each width
    while True:
        best_gain, best = 0.0, -1
        for step, (cost, less) in enumerate(steps):
            channel = ends[step + 1]
            if channel < ends[step] and cost <= left + 1e-9 and gains[channel] * less / cost > best_gain:
                best_gain, best = gains[channel] * less / cost, step
        if best < 0:
            break
        ends[best + 1] += 1
        left -= steps[best][0]
    if not any(ends[1:]):
        return (1, *(0 for _ in gains[1:]))
    held = [end - wider for end, wider in pairwise([*ends, 0])]
    return tuple(w for w, count in zip(reversed(widths), reversed(held), strict=True) for _ in range(count))
