"""What a configuration will take, over all slots and over the tokens of a conversation."""

import pytest

from studio.core.predict import predict_bytes, predicted_curve, reference_bytes
from tests.studio.ui.fake_cache import FakeConfig
from veloxquant_mlx.config import KVCacheConfig, SlotShape, methods
from veloxquant_mlx.telemetry import ByteCount

SHAPES = [SlotShape(3, 64, 64)] * 5 + [SlotShape(2, 32, 16)]


@pytest.mark.parametrize("key", list(methods()))
def test_the_sum_over_slots_of_every_method(key: str) -> None:
    config = methods()[key]()
    by_hand = sum((config.predict(1000, shape) for shape in SHAPES), ByteCount())
    assert predict_bytes(config, SHAPES, 1000) == by_hand


def test_sixteen_bits_are_two_bytes_a_value() -> None:
    assert reference_bytes(SHAPES, 10) == 2 * 10 * (5 * 3 * 128 + 2 * 48)
    assert reference_bytes(SHAPES, 10) == predict_bytes(KVCacheConfig("plain"), SHAPES, 10).total


@pytest.mark.parametrize("tokens", [1, 50, 4000])
def test_a_curve_rises_in_tokens_and_ends_where_it_is_asked_to(tokens: int) -> None:
    config = KVCacheConfig("skvq")
    curve = predicted_curve(config, SHAPES, tokens)
    places = [at for at, _ in curve]
    assert places == sorted(set(places)) and places[-1] == tokens and len(places) <= 120
    for at, taken in curve:
        assert taken == predict_bytes(config, SHAPES, int(at)).total


def test_what_cannot_be_told_is_no_curve() -> None:
    class Silent(FakeConfig):
        def predict(self, tokens: int, shape: SlotShape) -> ByteCount:
            raise NotImplementedError

    assert predict_bytes(Silent(), SHAPES, 100) == ByteCount()
    assert predicted_curve(Silent(), SHAPES, 100) == []
    assert predicted_curve(FakeConfig(), SHAPES, 0) == predicted_curve(FakeConfig(), [], 100) == []
