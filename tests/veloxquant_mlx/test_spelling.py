"""A configuration in words and back."""

import pytest

from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.errors import QuantizerConfigError, VeloxQuantError
from veloxquant_mlx.spelling import read_config, read_method, spell_method

SKVQ = methods()["skvq"]


def test_a_name_alone_is_the_defaults() -> None:
    assert read_method("skvq") == KVCacheConfig("skvq")


@pytest.mark.parametrize("name", SKVQ.presets)
def test_presets_in_any_case(name: str) -> None:
    assert read_method(f"skvq:{name}") == read_method(f"skvq:{name.upper()}") == SKVQ.preset(name)


def test_fields_win_over_the_preset() -> None:
    found = read_method("skvq:smallest, skvq_bits_key=5 ,skvq_reorder=False,skvq_max_ctx=None")
    values = SKVQ.preset("Smallest").as_dict() | {"skvq_bits_key": 5, "skvq_reorder": False}
    assert found.as_dict() == values


def test_lists_keep_their_commas() -> None:
    with pytest.raises(QuantizerConfigError, match=r"\[8, 4, 2\]"):
        read_method("skvq,skvq_bits_key=[8,4,2],skvq_bits_value=2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing", "no method 'nothing'"),
        ("skvq:tiny", "presets Balanced"),
        ("skvq,skvq_bits=4", "nearest are"),
        ("skvq,skvq_bits_key=99", "from 1 to 8"),
        ("skvq,skvq_bits_key=many", "not 'many'"),
    ],
)
def test_refusals_name_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(QuantizerConfigError, match=says):
        read_method(text)


def test_an_assignment_needs_its_sign() -> None:
    with pytest.raises(VeloxQuantError, match="FIELD=VALUE"):
        read_config("skvq", None, ["skvq_bits_key"])


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "affine,affine_bits=8",
        "skvq,skvq_bits_key=5,skvq_reorder=false",
        "skvq,head_dim=64",
        *(f"{key}:{name}" for key, declared in methods().items() for name in declared.presets),
    ],
)
def test_spelling_is_read_back_as_the_same(text: str) -> None:
    config = read_method(text)
    spelled = spell_method(config)
    assert read_method(spelled) == config
    assert spell_method(read_method(spelled)) == spelled


def test_a_preset_is_spelled_by_its_name() -> None:
    assert spell_method(SKVQ.preset("Smallest")) == "skvq:Smallest"
