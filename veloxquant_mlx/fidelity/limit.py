"""The rate-distortion limit of Gaussian rows: how few bits could have given the same error."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def reverse_water_filling(eigenvalues: Sequence[float] | Floats, distortion: float) -> float:
    """Bits per element that a Gaussian source needs at least for a mean squared error.

    The water level w solves ``mean(min(w, eigenvalue)) == distortion``; components above it get
    ``0.5 * log2(eigenvalue / w)`` bits, those below none (Cover and Thomas, "Elements of Information
    Theory", section 10.3.3). A white source of variance v gives ``0.5 * log2(v / distortion)``.

    Args:
        eigenvalues: variances of independent components; negative rounding residue counts as 0.
        distortion: mean squared error per element.

    Returns:
        Bits per element: 0 where the distortion reaches the mean variance, infinity where it is 0 and
        the source is not constant.

    Raises ValueError for no eigenvalues, for a negative distortion and for NaN.
    """
    variances = np.sort(np.maximum(np.asarray(eigenvalues, dtype=np.float64).ravel(), 0.0))
    if not variances.size or np.isnan(variances).any() or not distortion >= 0:
        raise ValueError(
            "Reverse water-filling needs eigenvalues and a distortion of at least 0, without NaN."
        )
    if distortion >= variances.mean():
        return 0.0
    if distortion == 0:
        return float("inf")
    # Level if exactly the k smallest components are under water; the right k is the first whose level
    # does not reach the next component.
    count = variances.size
    below = np.concatenate([[0.0], np.cumsum(variances)[:-1]])
    levels = (distortion * count - below) / (count - np.arange(count))
    level = levels[np.argmax(levels <= variances)]
    over = variances[variances > level]
    return float(0.5 * np.log2(over / level).sum() / count)


def covariance_eigenvalues(rows: Floats) -> Floats:
    """Eigenvalues of the centred covariance of every head, together.

    Args:
        rows: [B, H, n, D]; each of the B * H heads is centred on its own mean.

    Returns:
        B * H * D eigenvalues in float64, in no promised order.
    """
    centred = np.asarray(rows, dtype=np.float64)
    centred = centred - centred.mean(axis=2, keepdims=True)
    covariance = centred.swapaxes(2, 3) @ centred / rows.shape[2]  # [B, H, D, D]
    return np.linalg.eigvalsh(covariance).ravel()
