"""Comparisons kept with their messages: what comes back, what can't be read, what gives way."""

import json
import zlib

import pytest

from studio.core import store as store_module
from studio.core.compared import KeptComparison, unpacked
from studio.core.store import Store
from tests.studio.ui.comparisons import reply
from veloxquant_mlx.compared import SlotFidelity
from veloxquant_mlx.config import KVCacheConfig

SETTING = KVCacheConfig("skvq", skvq_bits_key=4)
PART = reply(7, ["The", " \udc80sky"], [1, 9], kl=[0.5, 0.25], config=SETTING)
KEPT = KeptComparison((PART,), SETTING, (SlotFidelity(0, True, 0.125), SlotFidelity(1, False)))


def test_a_comparison_comes_back_as_it_was() -> None:
    assert unpacked(7, KEPT.packed()) == KEPT
    assert unpacked(7, KeptComparison((PART,)).packed()) == KeptComparison((PART,))


def test_six_digits_of_a_figure_are_kept() -> None:
    kept = unpacked(7, KeptComparison((reply(7, ["a"], [1], kl=[0.123456789]),)).packed())
    assert kept is not None and kept.parts[0].fidelity.tokens[0].kl == 0.123457


def test_a_long_reply_takes_little_room() -> None:
    part = reply(7, [f" word{n}" for n in range(500)], [1] * 500, kl=[n / 7 for n in range(500)])
    assert len(KeptComparison((part,)).packed()) < 500 * 25


def changed(**values: object) -> bytes:
    record = json.loads(zlib.decompress(KEPT.packed())) | values
    return zlib.compress(json.dumps(record).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"no archive", KEPT.packed()[:40], zlib.compress(b"no record"), zlib.compress(b"[]"),
        changed(parts=None), changed(parts=[{}]), changed(config="a method of tomorrow"),
        changed(slots=[[1]]),
        changed(parts=[json.loads(zlib.decompress(KEPT.packed()))["parts"][0] | {"pieces": ["one"]}]),
    ],
)  # fmt: skip
def test_what_can_t_be_read_is_left_out(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert unpacked(7, data) is None
    assert "The comparison of message 7 can't be read" in caplog.text
    caplog.clear()


def test_the_oldest_give_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "COMPARISONS", 250)
    chat = store.new_chat("words").id
    ids: list[int] = []
    for _ in range(4):
        ids.append(store.add(chat, ids[-1] if ids else None, "assistant", "").id)
        store.keep_comparison(ids[-1], b"x" * 100)
    assert store.comparisons(ids).keys() == set(ids[2:])
    store.keep_comparison(ids[3], b"y" * 100)
    assert store.comparisons(ids) == {ids[2]: b"x" * 100, ids[3]: b"y" * 100}, "measured again: in its place"
