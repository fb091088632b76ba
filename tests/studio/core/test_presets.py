"""Presets of one's own: kept, renamed, carried to others, and whatever else a file may hold."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from studio.core.presets import LONGEST_NAME, OwnPreset, PresetStore, read_preset, tidy_name, write_preset
from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.errors import VeloxQuantError

MINE = KVCacheConfig("skvq", skvq_bits_key=5, skvq_window=64, skvq_rotate=True)
GOOD = {
    "format": "veloxquant-preset", "version": 1, "name": "Mine", "method": "skvq",
    "values": {"skvq_bits_key": 5},
}  # fmt: skip


@pytest.fixture
def store(home: Path) -> PresetStore:
    made = PresetStore()
    made.load()
    return made


def again() -> PresetStore:
    """What the next start of the app finds."""
    made = PresetStore()
    made.load()
    return made


def names(store: PresetStore, method: str = "skvq") -> list[str]:
    return [preset.name for preset in store.of(method)]


def test_a_preset_is_there_after_a_restart(store: PresetStore, home: Path) -> None:
    assert names(store) == []
    kept = store.add("My  setting\n", MINE)
    assert (kept.name, kept.path) == ("My setting", home / "data" / "presets" / "my-setting.json")
    assert again().of("skvq") == [kept]
    assert store.named(MINE) == kept and store.named(KVCacheConfig("skvq")) is None
    assert names(store, "affine") == []


def test_names_are_one_of_a_kind_in_a_method(store: PresetStore) -> None:
    store.add("Mine", MINE)
    for taken in ("mine", "Balanced", "custom"):
        with pytest.raises(VeloxQuantError, match=f"SKVQ has a preset {taken} already"):
            store.add(taken, MINE)
    with pytest.raises(VeloxQuantError, match="needs a name"):
        store.add(" \u202e\t", MINE)
    store.add("Mine", KVCacheConfig("affine"))
    assert store.free_name("Mine", MINE) == "Mine 2"
    assert store.free_name("New", MINE) == "New"
    assert len(names(again())) == 1 and len(names(again(), "affine")) == 1


def test_a_preset_is_renamed_in_its_file(store: PresetStore) -> None:
    kept = store.add("Mine", MINE)
    other = store.rename(kept, "Yours")
    assert other.path == kept.path
    assert names(store) == names(again()) == ["Yours"]
    assert store.rename(other, "yours").name == "yours", "its own name is not taken"


def test_a_deleted_preset_can_come_back(store: PresetStore) -> None:
    kept = store.add("Mine", MINE)
    store.remove(kept)
    assert names(store) == names(again()) == []
    assert store.add(kept.name, kept.config, path=kept.path) == kept
    assert again().of("skvq") == [kept]


def test_two_names_that_look_alike_on_disk_are_two_files(store: PresetStore) -> None:
    paths = {store.add(name, MINE).path for name in ("a/b", "a?b", "../../x", "…", "漢字")}
    assert len(paths) == 5
    assert {path.parent.name for path in paths if path} == {"presets"}
    assert len(names(again())) == 5


def test_a_damaged_file_is_left_alone(store: PresetStore, caplog: pytest.LogCaptureFixture) -> None:
    kept = store.add("Mine", MINE)
    assert kept.path is not None
    damaged = kept.path.with_name("damaged.json")
    damaged.write_text("{")
    assert names(again()) == ["Mine"]
    assert damaged.read_text() == "{"
    assert "damaged.json is not a preset" in caplog.text


def test_a_folder_that_cannot_be_written_to_is_said(store: PresetStore, home: Path) -> None:
    (home / "data").mkdir()
    (home / "data" / "presets").write_text("in the way")
    with pytest.raises(VeloxQuantError, match="was not saved"):
        store.add("Mine", MINE)
    assert names(store) == []


@pytest.mark.parametrize("key", list(methods()))
def test_every_method_goes_to_a_file_and_back(key: str, tmp_path: Path) -> None:
    declared = methods()[key]
    for config in (declared(), *(declared.preset(name) for name in declared.presets)):
        path = tmp_path / "p.json"
        write_preset(OwnPreset("n", config), path)
        assert read_preset(path) == OwnPreset("n", config, path)


def write(path: Path, record: Any) -> Path:
    path.write_text(record if isinstance(record, str) else json.dumps(record))
    return path


HOSTILE: list[tuple[Any, str]] = [
    ("", "it is not JSON"),
    ("[" * 60_000, "it is not JSON"),
    ("1" * 60_000, "it is not JSON"),
    ("[]", "its content has the wrong type"),
    ("{}", "'format' and 'version' and 'name' and 'method' and 'values' are missing"),
    (GOOD | {"format": "other"}, "its format is not veloxquant-preset"),
    (GOOD | {"version": 2}, "another version of the studio wrote it"),
    ({k: v for k, v in GOOD.items() if k != "name"}, "'name' is missing"),
    (GOOD | {"nmae": 1}, "it has 'nmae', and the nearest names known are name"),
    (GOOD | {"name": 5}, "name has the wrong type"),
    (GOOD | {"name": ""}, "name is too long or empty"),
    (GOOD | {"name": "\u202e\u0000"}, "its name has no letters"),
    (GOOD | {"name": "n" * 201}, "name is too long or empty"),
    (GOOD | {"method": "nonsense"}, "There is no method 'nonsense'"),
    (GOOD | {"method": ["skvq"]}, "method has the wrong type"),
    (GOOD | {"values": [1]}, "values has the wrong type"),
    (GOOD | {"values": {"skvq_bit_key": 2}}, "nearest are skvq_bits_key"),
    (GOOD | {"values": {"skvq_bits_key": "2"}}, "a whole number from 1 to 8, not '2'"),
    (GOOD | {"values": {"skvq_bits_key": 99}}, "from 1 to 8, not 99"),
    (GOOD | {"values": {"skvq_bits_key": {"deep": 1}}}, "values.skvq_bits_key has the wrong type"),
    (GOOD | {"values": {"skvq_bits_key": list(range(1000))}}, "not [0, 1, 2, 3, 4, 5, ...]"),
    (GOOD | {"values": {"method": "plain"}}, "'method' stands beside 'values'"),
    (GOOD | {"values": {"skvq_n_sink": 99, "skvq_window": 8}}, "must be at most skvq_window"),
    ('{"format": "veloxquant-preset", "version": NaN}', "is missing|are missing|another version"),
    (json.dumps(GOOD).replace("5", "1e999"), "not inf"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "why"), HOSTILE, ids=[why[:30] for _, why in HOSTILE])
def test_a_hostile_file_is_refused_in_one_short_sentence(tmp_path: Path, record: Any, why: str) -> None:
    import re

    with pytest.raises(VeloxQuantError) as caught:
        read_preset(write(tmp_path / "p.json", record))
    said = str(caught.value)
    assert re.search(why, said) or why in said
    assert said.startswith("p.json is not a preset that can be used: ")
    assert said.endswith(".") and len(said) < 300 and "\n" not in said


def test_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(VeloxQuantError, match="larger than 64 KB"):
        read_preset(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path, tmp_path / "pipe.json", tmp_path / "none.json", Path("/dev/zero")):
        with pytest.raises(VeloxQuantError, match="no ordinary file"):
            read_preset(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(b"\xff\xfe\x00\xd8{")
    with pytest.raises(VeloxQuantError, match="not JSON"):
        read_preset(tmp_path / "p.json")


def test_an_export_replaces_a_file_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", "before")
    write_preset(OwnPreset("n", MINE), path)
    assert read_preset(path).config == MINE
    assert [file.name for file in tmp_path.iterdir()] == ["p.json"]
    with pytest.raises(VeloxQuantError, match="there is a folder of that name"):
        write_preset(OwnPreset("n", MINE), tmp_path)


def test_names_are_tidied() -> None:
    assert tidy_name("  a\tb\u202ec\n") == "a bc"
    assert len(tidy_name("x" * 1000)) == LONGEST_NAME
