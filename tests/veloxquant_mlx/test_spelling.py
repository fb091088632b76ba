"""A configuration in words and back."""

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.tiny import tiny_folder, tiny_model
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.config import KVCacheConfig, methods, param
from veloxquant_mlx.errors import QuantizerConfigError, VeloxQuantError
from veloxquant_mlx.spelling import read_config, read_method, spell_command, spell_method, spell_python

SKVQ = methods()["skvq"]


@dataclass(frozen=True)
class Scheduled(KVCacheConfig):
    """A list, or a word in its place."""

    bands: tuple[int, ...] | Literal["auto"] = param((1, 0), label="Bands", help="Bits.", low=0, high=8)


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


CONFIGS = [
    KVCacheConfig("plain"),
    SKVQ.preset("Smallest"),
    SKVQ(**SKVQ.presets["Balanced"] | {"skvq_bits_value": 5, "skvq_reorder": False, "skvq_max_ctx": 4000}),
    KVCacheConfig("affine", affine_bits=8, affine_group_size=32),
]


@pytest.mark.parametrize("config", CONFIGS, ids=spell_method)
def test_python_makes_the_same_configuration(config: KVCacheConfig) -> None:
    made: dict[str, Any] = {"model": tiny_model("llama")}
    exec(compile(spell_python(config), "copied", "exec"), made)
    assert made["config"] == config
    assert len(made["cache"]) == len(made["model"].layers)
    assert {type(slot) for slot in made["cache"]} == {type(config.make_cache(0))}


@pytest.mark.parametrize("config", CONFIGS, ids=spell_method)
def test_the_command_answers_through_the_same_configuration(
    config: KVCacheConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_folder(tmp_path / "a model's folder")
    program, *arguments = shlex.split(spell_command(config, str(folder), "What's up?"))
    assert program == "veloxquant"
    assert main([*arguments, "--max-tokens", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["config"] == config.as_dict()
    assert told["prompt"] == "What's up?"


def test_words_and_lists_survive_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ((8, 4, 0), "auto"):
        line = spell_command(Scheduled(bands=value))
        words = shlex.split(line)
        monkeypatch.setattr("veloxquant_mlx.spelling.method_class", lambda _: Scheduled)
        found = read_method(words[words.index("--method") + 1])
        assert found.bands == value  # type: ignore[attr-defined]
        made: dict[str, Any] = {}
        text = spell_python(Scheduled(bands=value))
        exec(next(line for line in text.splitlines() if line.startswith("config")), {
            "KVCacheConfig": lambda method, **values: Scheduled(**values)
        }, made)  # fmt: skip
        assert made["config"].bands == value


def test_preset_and_assignments_beside_the_text() -> None:
    assert read_method("skvq", "balanced") == SKVQ.preset("Balanced")
    found = read_method("skvq:Smallest,skvq_bits_key=3,skvq_bits_value=3", None, ["skvq_bits_value=4"])
    assert found == replace(SKVQ.preset("Smallest"), skvq_bits_key=3, skvq_bits_value=4)
    with pytest.raises(VeloxQuantError, match="Two presets were named, Smallest and Balanced"):
        read_method("skvq:Smallest", "Balanced")
