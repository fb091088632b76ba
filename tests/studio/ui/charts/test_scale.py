import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.ui.charts.scale import binary_ticks, decimal_ticks, limit, tick_words, worth_drawing


@given(st.floats(1e-6, 1e9), st.sampled_from([2.0, 10.0]))
def test_a_limit_holds_the_value_and_wastes_at_most_half(value: float, base: float) -> None:
    end = limit(value, base=base)
    assert value * (1 - 1e-9) <= end <= 2.01 * value


def test_a_limit_stands_still_while_the_value_grows_a_little() -> None:
    assert limit(71.5) == limit(74.0) == 80
    assert limit(3104, base=2) == limit(3500, base=2) == 3584
    assert limit(0) == 1


@given(st.floats(1e-4, 1e7), st.integers(1, 8))
def test_ticks_start_at_zero_stay_inside_and_are_few(end: float, most: int) -> None:
    ticks = decimal_ticks(end, most)
    assert ticks[0] == 0 and ticks[-1] <= end * (1 + 1e-9) and len(ticks) <= most + 1


@given(st.integers(1, 2_000_000), st.integers(1, 8))
def test_token_ticks_are_multiples_of_a_power_of_two(end: int, most: int) -> None:
    ticks = binary_ticks(end, most)
    step = ticks[1] if len(ticks) > 1 else 1
    assert step & (step - 1) == 0 and ticks[-1] <= end and len(ticks) <= most + 1


@pytest.mark.parametrize(
    ("value", "step", "words"),
    [(0, 20, "0"), (1500, 500, "1,500"), (0.5, 0.5, "0.5"), (0.02, 0.02, "0.02"), (0, 0.05, "0.00")],
)
def test_tick_words(value: float, step: float, words: str) -> None:
    assert tick_words(value, step) == words


def test_few_rows_are_all_drawn() -> None:
    assert worth_drawing(np.arange(100), 60).tolist() == list(range(100))


@given(st.integers(1, 5000), st.integers(1, 300))
def test_thinning_keeps_ends_and_extremes_in_order(rows: int, width: int) -> None:
    heights = np.sin(np.arange(rows) * 0.7) * np.arange(rows)
    picked = worth_drawing(heights, width)
    assert picked[0] == 0 and picked[-1] == rows - 1
    assert np.all(np.diff(picked) > 0)
    assert heights.max() == heights[picked].max() and heights.min() == heights[picked].min()
    assert len(picked) <= max(rows if rows <= 2 * width else 0, 2 * width + 4)
