"""The rest between two looks follows what the last one cost, within its bounds."""

import pytest

from studio.ui.pace import APART, LONGEST_MS, SHARED, SHORTEST_MS, Pace, share_beside


@pytest.mark.parametrize("share", [SHARED, APART])
@pytest.mark.parametrize("cost", [0.0, 0.0001, 0.0006, 0.001, 0.02, 1.0])
def test_the_rest_is_a_multiple_of_what_the_look_cost(
    monkeypatch: pytest.MonkeyPatch, cost: float, share: int
) -> None:
    spent = [5.0]
    monkeypatch.setattr("studio.ui.pace.time.thread_time", lambda: spent[0])
    pace = Pace()
    pace.share = share
    for _ in range(3):
        spent[0] += cost
        rest = pace.rest()
        wanted = 1000 * share * cost
        assert rest == (
            SHORTEST_MS if wanted < SHORTEST_MS else LONGEST_MS if wanted > LONGEST_MS else round(wanted)
        )
    # Work done between looks, by a hand on a slider say, does not hold the next one up for longer than that.
    spent[0] += 60
    assert pace.rest() == LONGEST_MS
    assert pace.rest() == SHORTEST_MS


@pytest.mark.parametrize(
    ("compute", "share"),
    [("CPU float32", SHARED), ("CPU float16, slow (2 GB needed)", SHARED), ("Metal bfloat16", APART)],
)
def test_a_model_on_other_cores_leaves_this_one_to_the_window(compute: str, share: int) -> None:
    assert share_beside(compute) == share
