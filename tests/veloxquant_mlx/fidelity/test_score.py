"""The scores of two blocks of logits against plain numpy."""

import mlx.core as mx
import numpy as np
import pytest

from veloxquant_mlx.fidelity import score as module
from veloxquant_mlx.fidelity.score import Scores, score


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    top = wide.max(-1, keepdims=True)
    return wide - top - np.log(np.exp(wide - top).sum(-1, keepdims=True))


@pytest.mark.parametrize("piece", [1 << 22, 700, 1])
def test_equals_numpy_in_pieces_of_any_size(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 9, 300)).astype(np.float32) * 4
    following: list[int | None] = [*rng.integers(0, 300, 8).tolist(), None]
    found = score(mx.array(one), mx.array(two), following)
    p, q = log_softmax(one), log_softmax(two)
    np.testing.assert_allclose(found.kl, (np.exp(p) * (p - q)).sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(found.same_top1, one.argmax(-1) == two.argmax(-1))
    np.testing.assert_allclose(found.nll[:-1], -q[np.arange(8), following[:-1]], rtol=1e-5)
    assert np.isnan(found.nll[-1])


def test_a_block_against_itself_is_exactly_zero() -> None:
    logits = mx.array(np.random.default_rng(1).normal(size=(5, 100)).astype(np.float32) * 30)
    found = score(logits, logits, [1] * 5)
    assert not found.kl.any()
    assert found.same_top1.all()


def test_sixteen_bits_are_compared_in_float32() -> None:
    logits = mx.array(np.random.default_rng(2).normal(size=(3, 50)).astype(np.float32))
    found = score(logits.astype(mx.bfloat16), logits.astype(mx.bfloat16) + 0, [0, 1, 2])
    assert found.kl.dtype == found.nll.dtype == np.float32
    assert not found.kl.any()


def test_tokens_impossible_in_both_add_nothing() -> None:
    one = mx.array([[0.0, 1.0, -np.inf]])
    two = mx.array([[1.0, 0.0, -np.inf]])
    p = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    np.testing.assert_allclose(score(one, two, [0]).kl, [p[1] - p[0]], rtol=1e-6)


def test_nan_marks_its_own_position_only() -> None:
    good = mx.ones((3, 4))
    bad = mx.array(np.array([[1, 1, 1, 1], [1, np.nan, 1, 1], [1, 1, 1, 1]], dtype=np.float32))
    for pair in ((good, bad), (bad, good)):
        np.testing.assert_array_equal(np.isnan(score(*pair, [0, 0, 0]).kl), [False, True, False])


def test_joining_nothing_gives_empty_arrays() -> None:
    empty = Scores.joined([])
    assert empty.kl.size == empty.same_top1.size == empty.nll.size == 0
