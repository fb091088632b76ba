"""The rotary embedding behind a slot, and the rotations it makes."""

import copy
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from tests.tiny import tiny_model
from veloxquant_mlx.rotary import rotary_of, shared_turns, turns


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2"])
def test_a_key_turned_ahead_lies_where_the_model_would_have_put_it(family: str) -> None:
    model = tiny_model(family)
    rotary = rotary_of(model, 1, len(model.layers))
    assert rotary is not None
    found = turns(rotary, 32, 100, 5)
    assert found is not None
    rows = mx.random.normal((1, 1, 1, 32), key=mx.random.key(0))
    at_seven = rotary(rows, 7)
    for index in range(5):
        ahead = int(100 * (index * 0.6180339887498949 % 1))
        assert mx.allclose(
            at_seven.reshape(1, 32) @ found[index], rotary(rows, 7 + ahead).reshape(1, 32), atol=1e-4
        )


def test_positions_are_spread_over_the_whole_way() -> None:
    asked: list[int] = []

    def rotary(rows: mx.array, offset: int | mx.array) -> mx.array:
        asked.extend(mx.array(offset).reshape(-1).tolist())  # type: ignore[arg-type]
        return rows

    assert turns(rotary, 8, 1000, 24) is not None
    for start in range(0, 1000, 100):
        assert any(start <= offset < start + 100 for offset in asked)


def _one_offset(rows: mx.array, offset: int | mx.array, rope: nn.RoPE) -> mx.array:
    return rope(rows, offset=int(offset))  # type: ignore[arg-type]


def _the_first_offset(rows: mx.array, offset: int | mx.array, rope: nn.RoPE) -> mx.array:
    return rope(rows, offset=offset if isinstance(offset, int) else offset[0])


@pytest.mark.parametrize("narrow", [_one_offset, _the_first_offset])
def test_an_embedding_that_takes_one_offset_at_a_time_is_asked_for_each(narrow: Any) -> None:
    rope = nn.RoPE(32)
    every = turns(lambda rows, offset: rope(rows, offset=offset), 32, 100, 5)
    each = turns(lambda rows, offset: narrow(rows, offset, rope), 32, 100, 5)
    assert every is not None
    assert each is not None
    assert mx.allclose(every, each, atol=1e-5).item()


def test_layers_turned_alike_share_what_is_found_as_long_as_they_are_asked_together() -> None:
    asked: list[float] = []

    def layer(base: float) -> Any:
        def rotary(rows: mx.array, offset: int | mx.array) -> mx.array:
            asked.append(base)
            return nn.RoPE(32, base=base)(rows, offset=offset)

        return rotary

    with shared_turns():
        first = turns(layer(1e4), 32, 100, 5)
        once = len(asked)
        assert turns(layer(1e4), 32, 100, 5) is first
        assert len(asked) == once + 1
        other = turns(layer(1e5), 32, 100, 5)
    assert first is not None
    assert other is not None
    assert not mx.allclose(first, other).item()
    after = turns(layer(1e4), 32, 100, 5)
    assert after is not None
    assert after is not first
    assert mx.array_equal(after, first).item()


def test_without_a_layer_for_each_slot_nobody_can_tell() -> None:
    model = tiny_model()
    assert rotary_of(model, 0, len(model.layers) + 1) is None
    assert rotary_of(object(), 0, 1) is None


def test_keys_that_are_turned_in_part_are_left_alone() -> None:
    model = tiny_model("deepseek_v2")
    assert all(rotary_of(model, slot, len(model.layers)) is None for slot in range(len(model.layers)))


def test_what_is_no_rotation_of_such_keys_is_refused() -> None:
    assert turns(lambda rows, offset: rows * 2, 8, 100, 3) is None
    assert turns(lambda rows, offset: rows[..., :4], 8, 100, 3) is None
    # An embedding that can't take the rows at all.
    assert turns(nn.Linear(3, 3), 8, 100, 3) is None  # type: ignore[arg-type]


def test_a_copied_cache_shares_the_embedding() -> None:
    model = tiny_model()
    rotary = rotary_of(model, 0, len(model.layers))
    assert copy.deepcopy(rotary) is rotary
