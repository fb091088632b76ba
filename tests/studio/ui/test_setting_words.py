"""Settings in few words: the nearest preset and what differs from it."""

from dataclasses import replace

from studio.ui.setting_words import setting_words
from tests.studio.ui.fake_cache import FakeConfig
from veloxquant_mlx.config import KVCacheConfig


def test_a_preset_has_its_name() -> None:
    assert setting_words(FakeConfig(fake_bits=2)) == "Fake Small"
    assert setting_words(FakeConfig()) == "Fake Plain"


def test_others_are_told_by_what_differs_from_the_nearest_preset() -> None:
    assert setting_words(FakeConfig(fake_bits=2, fake_sinks=8)) == "Fake Small, sinks 8"
    assert setting_words(FakeConfig(fake_share=0.85)) == "Fake Plain, share 0.85"
    balanced = type(KVCacheConfig("skvq")).preset("Balanced")
    near = replace(balanced, skvq_bits_key=6, skvq_center=not balanced.skvq_center)  # type: ignore[call-arg]
    assert setting_words(near).startswith("SKVQ Balanced, key bits 6, center keys ")


def test_without_presets_the_method_s_name_stands() -> None:
    assert setting_words(KVCacheConfig("plain")) == "Uncompressed"
