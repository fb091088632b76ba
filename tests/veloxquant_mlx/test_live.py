"""The live cache: how far it goes back, and what its marks may take."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import RotatingKVCache

from tests.veloxquant_mlx.cache.feeding import rows
from veloxquant_mlx import live as live_module
from veloxquant_mlx.cache.slot import snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.live import SHARE, LiveCache, common

SKVQ = KVCacheConfig("skvq", skvq_window=16, skvq_recent=16)
SLOTS = 3


def _live(config: KVCacheConfig = SKVQ) -> LiveCache:
    return LiveCache([config.make_cache(slot) for slot in range(SLOTS)])


def _feed(live: LiveCache, tokens: list[int], start: int) -> None:
    """Rows of which each is made by its token alone."""
    keys, values = rows(300, seed=1)
    picked = mx.array([token % 300 for token in tokens[start:]])
    for slot in live.caches:
        slot.update_and_fetch(keys[:, :, picked], values[:, :, picked])


def _turn(live: LiveCache, tokens: list[int], reply: list[int]) -> int:
    """Answer a prompt as a session does; the tokens kept."""
    kept = live.go_back(tokens)
    if not kept:
        live = _fresh(live)
    read = kept
    for wanted in sorted(live.begin(len(tokens))):
        _feed(live, tokens[:wanted], read)
        live.mark(wanted)
        read = wanted
    _feed(live, tokens, read)
    for token in reply:
        _feed(live, [token], 0)
    assert live.settle([*tokens, *reply])
    return kept


def _fresh(live: LiveCache) -> LiveCache:
    config = getattr(live.caches[0], "config", KVCacheConfig("plain"))
    live.__init__([config.make_cache(slot) for slot in range(SLOTS)])  # type: ignore[misc]
    return live


def _talk(live: LiveCache, turns: int, prompt: int = 80, reply: int = 40) -> list[int]:
    tokens: list[int] = []
    for turn in range(turns):
        tokens = [*tokens, *range(turn, turn + prompt)]
        said = list(range(turn + 100, turn + 100 + reply))
        _turn(live, tokens, said)
        tokens += said
    return tokens


def test_what_only_grows_is_carried_on() -> None:
    live = _live()
    tokens = _talk(live, 2)
    assert live.go_back([*tokens, 7]) == len(tokens)


def test_an_empty_cache_and_another_conversation_have_nothing_to_keep() -> None:
    live = _live()
    assert live.go_back([1, 2, 3]) == 0
    tokens = _talk(live, 1)
    assert live.go_back([tokens[0] + 1, *tokens[1:]]) == 0
    assert live.held == tokens


def test_regenerating_goes_back_to_the_end_of_the_prompt() -> None:
    live = _live()
    tokens = _talk(live, 3)
    prompt = tokens[:-40]
    kept = live.go_back(prompt)
    assert len(prompt) - 32 <= kept < len(prompt)
    assert live.held == prompt[:kept]
    assert {slot.offset for slot in live.caches} == {kept}


def test_one_token_is_always_left_to_read() -> None:
    live = _live(KVCacheConfig("plain"))
    tokens = _talk(live, 2)
    assert live.go_back(tokens) == len(tokens) - 1
    assert live.go_back(tokens[:50]) == 49


def test_a_plain_cache_goes_back_to_the_token() -> None:
    for place in (7, 100, 163):
        live = _live(KVCacheConfig("plain"))
        tokens = _talk(live, 2)
        assert live.go_back([*tokens[:place], 999, 998]) == place


def test_a_plain_cache_needs_no_marks() -> None:
    live = _live(KVCacheConfig("plain"))
    _talk(live, 3)
    assert live.marks == ()


@pytest.mark.parametrize(("prompt", "before"), [(10, True), (200, False)])
def test_the_one_mark_stands_before_a_short_message_and_at_the_end_of_a_long_one(
    monkeypatch: pytest.MonkeyPatch, prompt: int, before: bool
) -> None:
    monkeypatch.setattr(live_module, "SHARE", 0.0)
    live = _live()
    tokens = _talk(live, 10)
    _turn(live, [*tokens, *range(prompt)], list(range(50, 90)))
    (place,) = live.marks
    assert (place <= len(tokens)) == before
    assert place > len(tokens) + prompt - 64


def test_exact_rows_are_gone_back_to_without_a_mark() -> None:
    live = _live()
    tokens = _talk(live, 1, prompt=60, reply=2)
    assert live.go_back([*tokens[:55], 999]) == 55


def test_nothing_is_known_while_a_call_may_be_under_way() -> None:
    live = _live()
    tokens = _talk(live, 2)
    live.begin(len(tokens) + 10)
    assert live.held is None
    assert live.go_back([*tokens, 1]) == 0


def test_a_count_that_differs_is_noticed() -> None:
    live = _live()
    tokens = _talk(live, 1)
    assert not live.settle(tokens[:-1])
    assert live.settle(tokens)


@pytest.mark.parametrize("turns", [5, 20, 40])
def test_the_marks_of_a_conversation_stay_within_their_share(turns: int) -> None:
    live = _live()
    _talk(live, turns)
    count = snapshot(live.caches).counted.total
    least = 16 * SLOTS * 2 * 2 * 64 * 2  # recent rows, slots, keys and values, heads, channels, bytes
    assert live.marks
    assert live.mark_bytes <= max(SHARE * count, 2 * least)
    if SHARE * count > 2 * least:
        assert live.mark_bytes <= SHARE * count


def test_a_short_conversation_keeps_one_mark() -> None:
    live = _live()
    tokens = _talk(live, 2)
    assert len(live.marks) == 1
    assert live.go_back(tokens[:-40]) > len(tokens) - 40 - 81


def test_with_room_every_turn_is_marked_where_its_prompt_begins_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_module, "SHARE", 100.0)
    live = _live()
    tokens = _talk(live, 4)
    begins = [120 * turn for turn in range(4)]
    for begin in begins[1:]:
        assert begin in live.marks
    for begin in begins:
        assert any(begin + 80 - 32 <= place < begin + 80 for place in live.marks)
    # Editing the second message keeps everything before it.
    assert live.go_back([*tokens[:120], 299, 298]) == 120
    assert max(live.marks) == 120
    assert _turn(live, [*tokens[:120], *range(50, 90)], [1, 2, 3]) == 120


def test_marks_are_cut_before_one_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    live = _live()
    monkeypatch.setattr(live_module, "SHARE", 100.0)
    _talk(live, 6, prompt=50, reply=45)
    free, places = live.mark_bytes, live.marks
    total = snapshot(live.caches).counted.total
    monkeypatch.setattr(live_module, "SHARE", 0.9 * free / total)
    live._thin()
    assert live.mark_bytes <= 0.9 * free
    assert len(live.marks) == len(places)
    assert all(0 <= before - after < 16 for before, after in zip(places, live.marks, strict=True))


def test_the_mark_kept_last_is_the_one_near_the_end() -> None:
    live = _live()
    tokens = _talk(live, 12)
    for _ in range(3):
        prompt = tokens[:-40]
        kept = _turn(live, prompt, tokens[-40:])
        assert kept > len(prompt) - 81


def test_a_slot_that_writes_over_itself_is_marked_right_before_the_opening_of_the_reply() -> None:
    live: Any = LiveCache([SKVQ.make_cache(0), RotatingKVCache(max_size=24)])
    assert live.begin(100) == {91}
    assert _live().begin(100) == {80}
    assert _live(KVCacheConfig("plain")).begin(100) == set()


def test_a_conversation_read_again_is_marked_at_its_turns() -> None:
    assert _live().begin(300, [0, 99, 140, 298]) == {80, 128, 288 - 16 + 16}


def test_common_is_the_longest_beginning() -> None:
    assert common([], [1]) == 0
    assert common([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common([1, 2], [1, 2]) == 2
