"""What a cache can be told: declarations, refusals, presets, predictions."""

import copy
import dataclasses
import json
import pickle
from typing import Any, Literal

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veloxquant_mlx.config import Field, KVCacheConfig, SlotShape, method_class, methods, param
from veloxquant_mlx.errors import QuantizerConfigError

EVERY_FIELD = [(key, spec) for key, declared in methods().items() for spec in declared.fields()]
IDS = [f"{key}.{spec.name}" for key, spec in EVERY_FIELD]
EVERY_PRESET = [(key, name) for key, declared in methods().items() for name in declared.presets]

every_field = pytest.mark.parametrize(("key", "spec"), EVERY_FIELD, ids=IDS)


def refused(key: str, **values: Any) -> QuantizerConfigError:
    with pytest.raises(QuantizerConfigError) as caught:
        KVCacheConfig(method=key, **values)
    return caught.value


def test_the_folder_is_the_catalogue() -> None:
    known = methods()
    assert {"plain", "affine", "skvq"} <= known.keys()
    for key, declared in known.items():
        assert declared.key() == key
        assert declared.label
        assert declared.summary.endswith(".")
        assert declared().method == key


@every_field
def test_every_field_says_what_a_form_needs(key: str, spec: Field) -> None:
    assert spec.param.label
    assert spec.param.help.endswith(".")
    assert spec.type in (int, float, bool, tuple)
    if spec.type in (int, float) and not spec.param.choices:
        assert spec.param.low is not None
        assert spec.param.high is not None
        assert spec.param.step
    if spec.name != "head_dim":
        assert spec.name.startswith(key.split("_")[0]) or spec.name.startswith("skvq")


@every_field
def test_a_default_is_a_value_its_own_field_takes(key: str, spec: Field) -> None:
    made = KVCacheConfig(method=key, **{spec.name: spec.default})
    assert getattr(made, spec.name) == spec.default


def _bad_values(spec: Field) -> list[Any]:
    bad: list[Any] = ["two", object(), {}, 1 + 2j]
    if not spec.optional:
        bad.append(None)
    if spec.type is bool:
        return [*bad, 1, 0, 1.0]
    if spec.type is tuple:
        return [*bad, 3, ("a",), (1.5,)]
    bad += [True, float("nan"), float("inf"), -float("inf"), [1]]
    if spec.type is int:
        bad.append(1.5)
    if spec.param.choices:
        bad.append(max(spec.param.choices) + 1)
    if spec.param.low is not None:
        bad.append(spec.param.low - 1)
    if spec.param.high is not None:
        bad.append(spec.param.high + 1)
    return bad


@every_field
def test_a_bad_value_is_refused_by_the_field_s_name(key: str, spec: Field) -> None:
    for value in _bad_values(spec):
        error = refused(key, **{spec.name: value})
        assert error.field == spec.name, value
        assert str(error).startswith(f"{spec.name} must be "), value
        assert str(error).endswith("."), value
        assert "\n" not in str(error)


@every_field
def test_both_ends_of_a_range_are_taken(key: str, spec: Field) -> None:
    ends = [*spec.param.choices, spec.param.low, spec.param.high]
    for value in (v for v in ends if v is not None and spec.type in (int, float)):
        # The window bounds the sinks: no other field's end may make a sink count impossible.
        values = {spec.name: value} | ({"skvq_n_sink": 0} if spec.name == "skvq_window" else {})
        if spec.name == "skvq_n_sink":
            values["skvq_window"] = 1024
        if spec.name == "svdq_rank":
            # A rank below the entries of a schedule that cuts groups off is refused.
            values["svdq_bit_schedule"] = (4, 2)
        made = KVCacheConfig(method=key, **values)
        assert getattr(made, spec.name) == value
        assert type(getattr(made, spec.name)) is spec.type


def test_a_whole_float_is_taken_as_the_number_it_is() -> None:
    made = KVCacheConfig(method="skvq", skvq_bits_key=3.0)
    assert made.as_dict()["skvq_bits_key"] == 3
    assert type(made.as_dict()["skvq_bits_key"]) is int


def test_more_sinks_than_the_first_chunk_holds_are_refused() -> None:
    error = refused("skvq", skvq_window=16, skvq_n_sink=17)
    assert error.field == "skvq_n_sink"
    assert "skvq_window" in str(error)


def test_a_head_size_that_cannot_be_rotated_is_refused() -> None:
    error = refused("skvq", head_dim=36, skvq_rotate=True)
    assert error.field == "skvq_rotate"
    assert "36" in str(error)
    assert KVCacheConfig(method="skvq", head_dim=80, skvq_rotate=True).as_dict()["skvq_rotate"] is True


def test_an_unknown_field_names_the_nearest() -> None:
    error = refused("skvq", skvq_bit_key=2)
    assert error.field == "skvq_bit_key"
    assert "skvq_bits_key" in str(error)


def test_a_field_like_no_other_still_names_some() -> None:
    message = str(refused("skvq", zzz=1))
    assert any(spec.name in message for spec in method_class("skvq").fields())


def test_a_field_of_another_method_is_unknown() -> None:
    assert refused("plain", skvq_bits_key=2).field == "skvq_bits_key"


@pytest.mark.parametrize("name", ["", "SKVQ", "base", "nonsense"])
def test_an_unknown_method_names_the_known(name: str) -> None:
    error = refused(name)
    assert error.field == "method"
    assert "skvq" in str(error)
    assert "plain" in str(error)


def test_the_class_of_one_method_is_not_another() -> None:
    with pytest.raises(QuantizerConfigError) as caught:
        method_class("skvq")(method="plain")
    assert caught.value.field == "method"


def test_by_name_gives_the_class_that_declares_the_method() -> None:
    by_name = KVCacheConfig(method="skvq", head_dim=64, skvq_bits_key=3)
    assert type(by_name) is method_class("skvq")
    assert by_name == method_class("skvq")(head_dim=64, skvq_bits_key=3)
    assert by_name == KVCacheConfig("skvq", head_dim=64, skvq_bits_key=3)


@pytest.mark.parametrize("key", list(methods()))
def test_as_dict_is_json_and_gives_the_configuration_back(key: str) -> None:
    made = KVCacheConfig(method=key, head_dim=64)
    assert KVCacheConfig(**json.loads(json.dumps(made.as_dict()))) == made


@pytest.mark.parametrize(("key", "name"), EVERY_PRESET)
def test_presets_are_valid_and_know_their_name(key: str, name: str) -> None:
    made = method_class(key).preset(name)
    assert made.preset_name() == name
    assert dataclasses.replace(made, head_dim=64).preset_name() == name


@pytest.mark.parametrize(("key", "name"), EVERY_PRESET)
def test_a_preset_says_only_what_differs_from_the_defaults(key: str, name: str) -> None:
    defaults = method_class(key)()
    assert all(getattr(defaults, k) != v for k, v in method_class(key).presets[name].items())


def test_a_changed_preset_has_no_name() -> None:
    made = method_class("skvq").preset("Documented")
    assert dataclasses.replace(made, skvq_bits_key=5).preset_name() is None


def test_an_unknown_preset_names_the_known() -> None:
    with pytest.raises(QuantizerConfigError) as caught:
        method_class("skvq").preset("Fastest")
    assert caught.value.field == "preset"
    assert "Balanced" in str(caught.value)


def test_library_defaults_are_the_documented_ones() -> None:
    made = KVCacheConfig(method="skvq")
    assert made.preset_name() == "Documented"
    switched_on = [
        spec.name
        for spec in made.fields()
        if spec.param.extension and getattr(made, spec.name) not in (0, False)
    ]
    assert [name for name in switched_on if name != "skvq_param_bits"] == []


def test_fields_without_effect_name_the_other() -> None:
    rotated = KVCacheConfig(method="skvq", skvq_rotate=True)
    assert "Rotate" in rotated.inactive()["skvq_reorder"]
    assert "skvq_clip_alpha" in rotated.inactive()
    assert "skvq_clip_alpha" not in KVCacheConfig(method="skvq", skvq_clip_search=False).inactive()
    for key, declared in methods().items():
        names = {spec.name for spec in declared.fields()}
        assert declared().inactive().keys() <= names, key


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
@pytest.mark.parametrize("key", list(methods()))
def test_configurations_can_be_copied(key: str, copied: Any) -> None:
    made = KVCacheConfig(method=key, head_dim=48)
    other = copied(made)
    assert other == made
    assert type(other) is type(made)
    assert hash(other) == hash(made)


def test_configurations_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        KVCacheConfig(method="skvq").skvq_bits_key = 3  # type: ignore[attr-defined]


@settings(max_examples=80, deadline=None)
@given(data=st.data(), preset=st.sampled_from(sorted(method_class("skvq").presets)))
def test_predicted_bytes_are_what_a_real_cache_counts(data: st.DataObject, preset: str) -> None:
    draw = data.draw
    config = dataclasses.replace(
        method_class("skvq").preset(preset),
        skvq_bits_key=draw(st.integers(1, 8)),
        skvq_bits_value=draw(st.integers(1, 8)),
        skvq_group_size=draw(st.sampled_from((16, 32, 64, 128))),
        skvq_window=draw(st.sampled_from((8, 16, 32))),
        skvq_recent=draw(st.sampled_from((0, 8, 16))),
        skvq_n_sink=draw(st.integers(0, 8)),
        skvq_reorder=draw(st.booleans()),
        skvq_center=draw(st.booleans()),
    )  # fmt: skip
    shape = SlotShape(
        heads=draw(st.integers(1, 3)),
        key_dim=draw(st.sampled_from((16, 40, 64, 80))),
        value_dim=draw(st.sampled_from((16, 32, 56))),
        batch=draw(st.integers(1, 2)),
    )
    tokens = draw(st.integers(0, 100))
    cache = config.make_cache(0)
    if tokens:
        keys = mx.random.normal((shape.batch, shape.heads, tokens, shape.key_dim))
        values = mx.random.normal((shape.batch, shape.heads, tokens, shape.value_dim))
        cache.update_and_fetch(keys, values)  # type: ignore[attr-defined]
    assert config.predict(tokens, shape) == cache.byte_count()


@settings(max_examples=20, deadline=None)
@given(
    key=st.sampled_from(("plain", "affine")), tokens=st.integers(1, 300), heads=st.integers(1, 3),
    batch=st.integers(1, 2), value_dim=st.sampled_from((64, 128)),
)  # fmt: skip
def test_stock_caches_are_predicted_at_16_bits(
    key: str, tokens: int, heads: int, batch: int, value_dim: int
) -> None:
    config = KVCacheConfig(method=key)
    cache = config.make_cache(0)
    cache.update_and_fetch(  # type: ignore[attr-defined]
        mx.ones((batch, heads, tokens, 64), dtype=mx.float16),
        mx.ones((batch, heads, tokens, value_dim), dtype=mx.float16),
    )
    shape = SlotShape(heads=heads, key_dim=64, value_dim=value_dim, batch=batch)
    assert config.predict(tokens, shape) == cache.byte_count()


@dataclasses.dataclass(frozen=True)
class WithWords(KVCacheConfig):
    """A list or a word, and a number, a word or nothing."""

    bands: tuple[int, ...] | Literal["auto"] = param("auto", label="Bands", help="Bits.", low=0, high=8)
    share: float | Literal["all", "half"] | None = param(None, label="Share", help="A share.", low=0, high=1)


def test_a_word_may_stand_in_place_of_a_value() -> None:
    bands, share = WithWords.fields()[:2]
    assert (bands.type, bands.optional, bands.words, bands.stand_ins) == (tuple, False, ("auto",), ("auto",))
    assert (share.type, share.optional, share.stand_ins) == (float, True, (None, "all", "half"))
    for made in (WithWords(), WithWords(bands=[8, 0], share=0.5), WithWords(share="all")):
        assert WithWords(**json.loads(json.dumps(made.as_dict()))) == made
    for values, wants in (
        ({"bands": "none"}, "bands must be a list of whole numbers from 0 to 8 or 'auto', not 'none'."),
        ({"bands": None}, "bands must be a list of whole numbers from 0 to 8 or 'auto', not None."),
        ({"share": 2.5}, "share must be a number from 0 to 1 or None or 'all' or 'half', not 2.5."),
    ):
        with pytest.raises(QuantizerConfigError) as caught:
            WithWords(**values)
        assert str(caught.value) == wants
