"""How far two predictions of the next token lie apart, position by position."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_PIECE = 1 << 22
"""Logits compared at a time: 16 MB of float32 each, whatever the vocabulary is."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One value per position; arrays of equal length."""

    kl: Array
    """KL(reference || other) in nats. NaN where either prediction holds NaN."""
    same_top1: NDArray[np.bool_]
    """Whether both would say the same token."""
    nll: Array
    """Surprise at the real next token, -log p in nats; NaN where there is none."""

    @staticmethod
    def joined(parts: Sequence["Scores"]) -> "Scores":
        """Several stretches of positions in a row."""
        if not parts:
            return Scores(np.zeros(0, np.float32), np.zeros(0, np.bool_), np.zeros(0, np.float32))
        return Scores(
            np.concatenate([part.kl for part in parts]),
            np.concatenate([part.same_top1 for part in parts]),
            np.concatenate([part.nll for part in parts]),
        )


def score(reference: mx.array, other: mx.array, following: Sequence[int | None]) -> Scores:
    """Compare two blocks of logits.

    Everything is computed in float32, a few rows at a time. Rounding leaves about 1e-6 nats; a sum that
    rounding made negative is given as 0.

    Args:
        reference, other: logits [S, V]. following: the S real next tokens, None where there is none.
    """
    rows = max(1, _PIECE // reference.shape[-1])
    targets = np.array([-1 if token is None else token for token in following])
    parts = [
        _score(reference[at : at + rows], other[at : at + rows], targets[at : at + rows])
        for at in range(0, reference.shape[0], rows)
    ]
    return Scores.joined(parts)


def _score(reference: mx.array, other: mx.array, targets: NDArray[np.int64]) -> Scores:
    expected, found = _log_probabilities(reference), _log_probabilities(other)
    likely = mx.exp(expected)
    # A token that is impossible in both has log p = -inf twice; it adds nothing.
    terms = mx.where(likely == 0, 0, likely * (expected - found))
    kl = mx.maximum(terms.sum(axis=-1), 0)
    damaged = mx.isnan(expected).any(axis=-1) | mx.isnan(found).any(axis=-1)
    kl = mx.where(damaged, mx.nan, kl)
    same = expected.argmax(axis=-1) == found.argmax(axis=-1)
    nll = -mx.take_along_axis(found, mx.array(np.maximum(targets, 0))[:, None], axis=-1)[:, 0]
    mx.eval(kl, same, nll)
    surprise = np.where(targets < 0, np.float32(np.nan), np.array(nll, dtype=np.float32))
    return Scores(np.array(kl, dtype=np.float32), np.array(same, dtype=np.bool_), surprise)


def _log_probabilities(logits: mx.array) -> mx.array:
    logits = logits.astype(mx.float32)
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)
