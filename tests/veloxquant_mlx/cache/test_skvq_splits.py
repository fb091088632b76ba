"""Any split of the same rows gives the same cache, bit for bit."""

from itertools import product
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.veloxquant_mlx.cache.feeding import feed, rows, same, skvq

SWITCHES = [
    {"skvq_reorder": reorder, "skvq_clip_search": search, "skvq_center": center, "skvq_rotate": rotate,
     "skvq_defer_flush": defer, "skvq_param_bits": parameters}
    for reorder, search, center, rotate, defer, parameters in product(*[(False, True)] * 5, (16, 8))
]  # fmt: skip


@pytest.mark.parametrize("changes", SWITCHES, ids=lambda c: "".join(str(int(v)) for v in c.values()))
def test_for_every_combination_of_switches(changes: dict[str, Any]) -> None:
    keys, values = rows(75, batch=2)
    whole = feed(skvq(**changes), keys, values, [75])
    assert same(whole, feed(skvq(**changes), keys, values, [1] * 75))
    assert same(whole, feed(skvq(**changes), keys, values, [40, 1, 1, 33]))


@st.composite
def splits(draw: st.DrawFn) -> tuple[int, list[int]]:
    total = draw(st.integers(1, 90))
    sizes = []
    while sum(sizes) < total:
        sizes.append(draw(st.integers(1, total - sum(sizes))))
    return total, sizes


@settings(max_examples=60, deadline=None)
@given(
    split=splits(),
    seed=st.integers(0, 2**32 - 1),
    bits=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    group=st.sampled_from((16, 32, 64, 128)),
    window=st.sampled_from((8, 16, 24)),
    recent=st.sampled_from((0, 8, 24)),
    sinks=st.integers(0, 8),
    switch=st.sampled_from(SWITCHES),
    dims=st.sampled_from(((64, 64), (80, 48), (32, 96), (128, 128), (12, 20))),
    heads=st.integers(1, 4),
    batch=st.integers(1, 3),
    dtype=st.sampled_from((mx.float32, mx.float16, mx.bfloat16)),
)
def test_for_any_split_and_shape(
    split: tuple[int, list[int]], seed: int, bits: tuple[int, int], group: int, window: int, recent: int,
    sinks: int, switch: dict[str, Any], dims: tuple[int, int], heads: int, batch: int, dtype: mx.Dtype,
) -> None:  # fmt: skip
    total, sizes = split
    shape = {"heads": heads, "batch": batch, "key_dim": dims[0], "value_dim": dims[1]}
    keys, values = rows(total, seed=seed, dtype=dtype, **shape)
    changes = switch | {
        "skvq_bits_key": bits[0], "skvq_bits_value": bits[1], "skvq_group_size": group, "skvq_n_sink": sinks,
        "skvq_window": window, "skvq_recent": recent,
    }  # fmt: skip
    whole = feed(skvq(**changes), keys, values, [total])
    assert same(whole, feed(skvq(**changes), keys, values, sizes))
    assert same(whole, feed(skvq(**changes), keys, values, [1] * total))


@pytest.mark.parametrize("window", [8, 128])
@pytest.mark.parametrize("dim", [64, 96, 128])
def test_rotated_rows_do_not_depend_on_how_many_are_rotated_together(dim: int, window: int) -> None:
    """Matrix products may round differently for other numbers of rows; codes must not show it."""
    keys, values = rows(1024, heads=3, key_dim=dim, value_dim=dim)
    changes: dict[str, Any] = {"skvq_rotate": True, "skvq_bits_key": 8, "skvq_window": window}
    whole = feed(skvq(**changes), keys, values, [1024])
    assert same(whole, feed(skvq(**changes), keys, values, [128] * 8))
    assert same(whole, feed(skvq(**changes), keys, values, [7] * 146 + [2]))


def test_nothing_is_random() -> None:
    keys, values = rows(64)
    mx.random.seed(1)
    first = feed(skvq(skvq_rotate=True), keys, values, [64])
    mx.random.seed(2)
    assert same(first, feed(skvq(skvq_rotate=True), keys, values, [64]))
