"""What every slot held at every row: exactly what was fed, in little memory."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.core.history import History
from studio.core.slot_history import SlotHistory
from tests.studio.synthetic import basis, history, reply, snapshot
from veloxquant_mlx.steps import TokenStep
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot, LayerStats

FOREIGN = frozenset({1, 3})


def fed(**kw: object) -> tuple[History, dict[int, CacheSnapshot]]:
    """A history of two turns and the snapshots it was fed, by token count."""
    kept, seen = History(), {}
    for start, prompt, new in ((0, 300, 150), (450, 70, 200)):
        for step in reply(start, prompt, new, slots=5, **kw):  # type: ignore[arg-type]
            kept.append(step)
            seen[step.snapshot.tokens] = step.snapshot
    return kept, seen


@pytest.mark.parametrize("kw", [{}, {"ranked": True}, {"window": 32, "foreign": FOREIGN}, {"window": 1}])
def test_a_moment_is_the_very_snapshot_that_was_fed(kw: dict[str, object]) -> None:
    kept, seen = fed(**kw)
    for tokens, shown in seen.items():
        assert kept.moment(tokens) == shown


def test_between_two_rows_a_moment_is_the_earlier_one() -> None:
    kept, seen = fed()
    assert kept.moment(299) == seen[0] and kept.moment(470) == seen[450] and kept.moment(10**6) == seen[720]


def test_there_is_no_moment_before_the_first_row() -> None:
    assert History().moment(7) is None
    kept = History()
    kept.append(TokenStep("a", 1, 1, snapshot(50, 2)))
    assert kept.moment(49) is None and kept.moment(50) == snapshot(50, 2)


def test_a_rewind_in_the_middle_forgets_what_came_after() -> None:
    kept, seen = fed()
    for step in reply(400, 30, 5, slots=5, bits=(4, 4)):
        kept.append(step)
    assert kept.moment(399) == seen[399] and kept.moment(10**6) == snapshot(435, 5, bits=(4, 4))
    assert kept.moment(433) == snapshot(433, 5, bits=(4, 4)) and kept.moment(429) == kept.moment(400)
    assert kept.piece(399) == " r399" and kept.piece(400) == " p400" and kept.piece(435) is None


def test_another_list_of_slots_begins_anew_and_the_old_rows_stay() -> None:
    kept = history(((200, 10),), slots=3)
    kept.append(TokenStep("a", 1, 11, snapshot(211, 7)))
    assert kept.moment(205) == snapshot(205, 3) and kept.moment(211) == snapshot(211, 7)
    kept.append(TokenStep("a", 1, 1, snapshot(204, 3)))
    assert kept.moment(211) == snapshot(204, 3)


def test_stretches_of_even_growth_take_no_memory() -> None:
    one, long = history(((256, 2),), slots=8), history(((256, 120),), slots=8)
    assert one.nbytes == pytest.approx(long.nbytes, rel=0.05)


def _walk(values: list[int], figures: Callable[[int], tuple[int, ...]]) -> list[CacheSnapshot]:
    tokens, found = 0, []
    for step in values:
        tokens += 1 + step % 3
        codes, exact, resident = figures(step)
        layer = LayerStats(
            0, True, ByteCount(codes, exact=exact), resident, tokens * 4, tokens, {"g": step / 7}
        )
        found.append(CacheSnapshot(tokens, (layer,), 0, 0))
    return found


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=60), st.integers(0, 59))
def test_figures_without_any_order_come_back_unrounded(values: list[int], rewind: int) -> None:
    rows = _walk(values, lambda value: (value, value % 5, value // 3))
    kept = SlotHistory()
    for row in rows:
        kept.append(row)
    assert [kept.layers(row.tokens) for row in rows] == [row.layers for row in rows]
    left = rows[: rewind % len(rows)]
    kept.cut(left[-1].tokens if left else -1)
    assert [kept.layers(row.tokens) for row in left] == [row.layers for row in left]


def test_beyond_its_budget_the_distant_past_is_kept_in_larger_steps() -> None:
    kept = History()
    kept._slots = SlotHistory(budget := 60_000)
    seen = {}
    for tokens in range(1, 3000):
        seen[tokens] = snapshot(tokens, 4, window=4)
        kept.append(TokenStep("a", 1, tokens, seen[tokens]))
        assert kept._slots.nbytes <= budget
    found = {shown.tokens for tokens in seen if (shown := kept.moment(tokens)) is not None}
    for tokens in seen:
        shown = kept.moment(tokens)
        assert shown is not None and shown.tokens <= tokens and shown == seen[shown.tokens]
    old, new = [t for t in found if t <= 1500], [t for t in found if t > 2400]
    assert 40 < len(old) < 400 and len(new) > 500 and max(np.diff(sorted(found))) <= 64
    kept.append(TokenStep("a", 1, 1, snapshot(1400, 4, window=4)))
    assert kept.moment(1399) is not None and kept.moment(1400) == snapshot(1400, 4, window=4)


def test_heads_are_shared_not_copied() -> None:
    kept = history(((300, 50),), slots=2, ranked=True)
    shown = kept.moment(320)
    assert shown is not None and shown.layers[1].heads[2] is basis(1, 2, 64)
    assert kept.moment(0).layers[1].heads == ()  # type: ignore[union-attr]


def test_the_text_of_a_token_is_known_by_its_position() -> None:
    kept = history(((300, 50), (20, 5)))
    assert [kept.piece(at) for at in (0, 299, 300, 349, 350, 374)] == [
        " p0", " p299", " r300", " r349", " p350", " r374",
    ]  # fmt: skip
    assert kept.piece(375) is None and kept.piece(-1) is None


def test_tokens_without_a_text_are_unknown_and_shift_nothing() -> None:
    kept = History()
    kept.append(TokenStep("a", 1, 1, snapshot(40)))
    kept.append(TokenStep("b", 1, 2, snapshot(41), ("b",)))
    assert kept.piece(39) is None and kept.piece(40) == "b"
