"""Exact rows put down once and tried with other settings."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.tiny import tiny_model
from veloxquant_mlx import attention
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import Captured, Replayed, measure, measure_steps, replay
from veloxquant_mlx.fidelity.capture import Query, capture_queries
from veloxquant_mlx.fidelity.captured import _few, _of_head, spread
from veloxquant_mlx.fidelity.slots import each_slot

SKVQ = KVCacheConfig("skvq", skvq_window=16, skvq_bits_key=2, skvq_bits_value=2)
TOKENS = np.random.default_rng(5).integers(0, 250, 150).tolist()


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def replayed(model: Any) -> Replayed:
    *_, end = replay(model, TOKENS, [])
    assert isinstance(end, Replayed)
    return end


def test_errors_are_those_of_the_exact_rows(model: Any, replayed: Replayed) -> None:
    captured = Captured(replayed.rows, replayed.queries, len(TOKENS))
    found = {one.slot: one.attention_error for one in captured.tries(model, SKVQ)}
    rows = replayed.rows.__getitem__
    expected = list(each_slot(model, SKVQ, rows, replayed.queries, replayed.bounds, sides=False))
    assert found.keys() == {0, 1, 2}
    for one in expected:
        # Rows in 16 bits and blocks of another length: the codes are the same but for rounding.
        assert found[one.slot] == pytest.approx(one.attention_error, rel=0.03)


def test_more_bits_are_nearer(model: Any, replayed: Replayed) -> None:
    captured = Captured(replayed.rows, replayed.queries, len(TOKENS))
    means = []
    for bits in (2, 4, 8):
        config = KVCacheConfig("skvq", skvq_window=16, skvq_bits_key=bits, skvq_bits_value=bits)
        means.append(np.mean([one.attention_error for one in captured.tries(model, config)]))
    assert means[0] > 3 * means[1] > 9 * means[2] > 0


def test_an_estimate_from_one_head_is_near_what_is_measured(model: Any, replayed: Replayed) -> None:
    captured = Captured(replayed.rows, replayed.queries, len(TOKENS))
    assert captured.several_heads
    near = KVCacheConfig("skvq", skvq_window=16, skvq_bits_key=3, skvq_bits_value=2)
    whole = {one.slot: one for one in captured.tries(model, SKVQ)}
    about = {one.slot: one.attention_error for one in captured.estimates(model, SKVQ)}
    # The head that was measured with the others, at the same setting, stands for the slot exactly.
    assert about == pytest.approx({slot: one.attention_error for slot, one in whole.items()}, rel=0.02)
    about = {one.slot: one.attention_error for one in captured.estimates(model, near)}
    exact = {one.slot: one.attention_error for one in captured.tries(model, near)}
    assert list(about) == list(exact)
    assert about == pytest.approx(exact, rel=0.3)


def test_the_telling_head_has_most_of_the_error(model: Any, replayed: Replayed) -> None:
    captured = Captured(replayed.rows, replayed.queries, len(TOKENS))

    def alone(slot: int, head: int, query: Query) -> tuple[float, float]:
        """Error of one head by itself, a share, and the length of what it should have answered."""
        outputs: dict[int, mx.array] = {}
        (found,) = each_slot(
            model, SKVQ, lambda _: captured.rows(slot, head), {slot: query}, captured.bounds,
            sides=False, order=[slot], outputs=outputs,
        )  # fmt: skip
        assert found.attention_error is not None
        return found.attention_error, float(mx.linalg.norm(outputs[slot]).item())

    for one in captured.tries(model, SKVQ):
        heads = [_of_head(captured.queries[one.slot], head) for head in range(2)]
        whole = [alone(one.slot, head, query) for head, query in enumerate(heads)]
        squares = np.array([(error * size) ** 2 for error, size in whole])
        assert one.telling is not None and one.telling.head == squares.argmax()
        total = np.sqrt(squares.sum() / sum(size**2 for _, size in whole))
        assert one.attention_error == pytest.approx(total, rel=1e-3)
        few, _ = alone(one.slot, one.telling.head, _few(heads[one.telling.head]))
        assert one.telling.factor == pytest.approx(total / few, rel=1e-3)


def test_the_first_queries_are_kept_in_part(model: Any, replayed: Replayed) -> None:
    asked = capture_queries(
        model, KVCacheBuilder.for_model(model, KVCacheConfig("plain")), mx.array([TOKENS])
    )
    assert replayed.seen.keys() == asked.keys() == {0, 1, 2}
    # Passes begin at 0 and 118, where the newest queries do: each has its own every eighth.
    places = [*range(7, 118, 8), *range(125, 150, 8)]
    for slot, found in replayed.seen.items():
        np.testing.assert_allclose(found, np.array(asked[slot].queries)[:, :, places], atol=1e-4)


def test_a_basis_is_weighed_by_the_queries_before_it(model: Any, replayed: Replayed) -> None:
    def errors(weight: float, seen: dict[int, mx.array] | None) -> list[float | None]:
        config = KVCacheConfig("svdq", svdq_fit_rows=64, svdq_query_weight=weight)
        captured = Captured(replayed.rows, replayed.queries, len(TOKENS), seen=seen)
        return [one.attention_error for one in captured.tries(model, config)]

    with attention.attention_on_codes(model):
        assert errors(0.0, replayed.seen) == errors(0.0, None)
        assert errors(1.0, None) == pytest.approx(errors(0.0, None), rel=1e-6)
        for weighed, other in zip(errors(1.0, replayed.seen), errors(1.0, None), strict=True):
            assert weighed != pytest.approx(other, rel=1e-3)
    # Without it the model's attention shows its caches no queries.
    assert errors(1.0, replayed.seen) == errors(1.0, None)


def test_rows_come_back_from_the_file_as_they_were(model: Any, replayed: Replayed) -> None:
    held = Captured(replayed.rows, replayed.queries, len(TOKENS))
    spilled = Captured(replayed.rows, replayed.queries, len(TOKENS), memory=1000)
    assert spilled.spilled and not held.spilled
    for slot in range(3):
        one, other, exact = held.rows(slot), spilled.rows(slot), replayed.rows[slot]
        assert one is not None and other is not None and exact is not None
        for a, b, c in zip(one, other, exact, strict=True):
            assert a.dtype == b.dtype == mx.float16
            np.testing.assert_array_equal(np.array(a), np.array(b))
            np.testing.assert_array_equal(np.array(a), np.array(c.astype(mx.float16)))
    spilled.close()
    assert len(spilled) == 0


def test_a_full_disk_is_a_sentence(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def seek(self, *_: int) -> int:
            return 0

        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", lambda **_: Full())
    with pytest.raises(VeloxQuantError, match="no room on the disk"):
        Captured(replayed.rows, replayed.queries, len(TOKENS))


def test_more_than_is_kept_is_a_sentence(replayed: Replayed) -> None:
    with pytest.raises(VeloxQuantError, match="are kept at most"):
        Captured(replayed.rows, replayed.queries, len(TOKENS), most=1000)


def test_what_is_kept_is_not_in_mlx_s_memory(model: Any) -> None:
    *_, end = replay(model, TOKENS, [])
    assert isinstance(end, Replayed)
    mx.clear_cache()
    before = mx.get_active_memory()
    captured = Captured(end.rows, end.queries, len(TOKENS))
    assert captured.nbytes == 3 * 2 * 2 * 2 * len(TOKENS) * 32
    assert mx.get_active_memory() - before < captured.nbytes / 10


def test_only_the_slots_asked_for_are_tried(model: Any, replayed: Replayed) -> None:
    captured = Captured(replayed.rows, replayed.queries, len(TOKENS))
    assert [one.slot for one in captured.tries(model, SKVQ, [2, 0])] == [2, 0]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 30, 100])
def test_every_beginning_of_the_order_is_spread_out(count: int) -> None:
    order = spread(count)
    assert sorted(order) == list(range(count))
    for first in range(2, count + 1):
        held = sorted(order[:first])
        gaps = np.diff([*held, count + held[0]])
        assert gaps.max() <= 4 * count / first + 1


def test_measuring_in_steps_ends_where_measuring_does(model: Any) -> None:
    *steps, end = measure_steps(model, TOKENS, [SKVQ], block=64, start=64)
    assert [step.tokens_done for step in steps] == [64, 128] and not steps[-1].complete
    whole = measure(model, TOKENS, [SKVQ], block=64, start=64, decode_steps=0)
    assert end.complete
    assert end.methods[0].kl == whole.methods[0].kl
    assert end.methods[0].same_top1 == whole.methods[0].same_top1
