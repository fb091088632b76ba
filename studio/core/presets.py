"""Presets of one's own: small JSON files, one each, in the data folder and on the way to others."""

import difflib
import json
import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import QuantizerConfigError, VeloxQuantError
from veloxquant_mlx.paths import data_dir
from veloxquant_mlx.saving import save

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_log = logging.getLogger(__name__)

FORMAT, VERSION = "veloxquant-preset", 1
LONGEST_NAME = 60
_MOST_BYTES = 64 * 1024
_MOST_FILES = 500


@dataclass(frozen=True, slots=True)
class OwnPreset:
    """A configuration with a name and, once it is kept, its file."""

    name: str
    config: KVCacheConfig
    path: Path | None = None


def tidy_name(text: str) -> str:
    """A name as it is kept: one line without invisible characters, at most LONGEST_NAME long."""
    spaced = "".join(" " if c.isspace() else c for c in text)
    return " ".join("".join(c for c in spaced if unicodedata.category(c)[0] != "C").split())[:LONGEST_NAME]


def read_preset(path: Path) -> OwnPreset:
    """The preset in a file that may come from anyone.

    Raises VeloxQuantError in one sentence unless it is a small JSON file that describes a configuration of
    a known method. Nothing in it is run, and no more than its first bytes are read.
    """
    refused = f"{path.name} is not a preset that can be used"
    try:
        if not path.is_file():
            raise VeloxQuantError(f"{refused}: it is no ordinary file.")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise VeloxQuantError(
            f"{path.name} can't be read: {error.strerror or 'the system refused'}."
        ) from error
    if len(data) > _MOST_BYTES:
        raise VeloxQuantError(f"{refused}: it is larger than {_MOST_BYTES // 1024} KB.")
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VeloxQuantError(f"{refused}: it is not JSON.") from error
    for fault in sorted(_validator().iter_errors(record), key=_order):
        raise VeloxQuantError(f"{refused}: {_why(fault, record)}.")
    name = tidy_name(record["name"])
    if not name:
        raise VeloxQuantError(f"{refused}: its name has no letters.")
    if "method" in record["values"]:
        raise VeloxQuantError(f"{refused}: 'method' stands beside 'values', not among them.")
    try:
        config = KVCacheConfig(method=record["method"], **record["values"])
    except QuantizerConfigError as error:
        raise VeloxQuantError(f"{refused}: {error}") from error
    return OwnPreset(name, config, path)


def write_preset(preset: OwnPreset, path: Path) -> None:
    """Write a preset for keeping or for others. Raises VeloxQuantError; an old ``path`` stays then."""
    values = preset.config.as_dict()
    method = values.pop("method")
    record = {"format": FORMAT, "version": VERSION, "name": preset.name, "method": method, "values": values}
    save("The preset", path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())


class PresetStore:
    """The presets a person keeps, oldest names first by alphabet; every change is on disk at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_dir() / "presets"
        self._kept: list[OwnPreset] = []

    def load(self) -> None:
        """Read the folder. A file that is no preset any more is logged and left where it is."""
        self._kept = []
        found = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        for path in found[:_MOST_FILES]:
            try:
                self._kept.append(read_preset(path))
            except VeloxQuantError as error:
                _log.warning("%s", error)

    def of(self, method: str) -> list[OwnPreset]:
        """The presets of a method by name."""
        mine = [preset for preset in self._kept if preset.config.method == method]
        return sorted(mine, key=lambda preset: preset.name.casefold())

    def named(self, config: KVCacheConfig) -> OwnPreset | None:
        """The preset whose configuration this is."""
        return next((preset for preset in self._kept if preset.config == config), None)

    def add(self, name: str, config: KVCacheConfig, *, path: Path | None = None) -> OwnPreset:
        """Keep a configuration under a name that is free; ``path`` as it was when it comes back.

        Raises VeloxQuantError when the name is taken, or the file can't be written.
        """
        name = self.checked_name(name, config)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VeloxQuantError(
                f"The preset was not saved: {self._folder.name} can't be made in the data folder."
            ) from error
        made = OwnPreset(name, config, path or self._free_path(name))
        self._write(made)
        self._kept.append(made)
        return made

    def rename(self, preset: OwnPreset, name: str) -> OwnPreset:
        """Keep the same under another name. Raises as ``add``."""
        made = OwnPreset(self.checked_name(name, preset.config, but=preset), preset.config, preset.path)
        self._write(made)
        self._kept[self._kept.index(preset)] = made
        return made

    def remove(self, preset: OwnPreset) -> None:
        """Forget a preset. Raises VeloxQuantError when it is gone already or its file can't be removed."""
        if preset not in self._kept:
            raise VeloxQuantError(f"The preset {preset.name} is not there any more.")
        try:
            if preset.path is not None:
                preset.path.unlink(missing_ok=True)
        except OSError as error:
            raise VeloxQuantError(
                f"The preset {preset.name} was not deleted: {error.strerror or 'the system refused'}."
            ) from error
        self._kept.remove(preset)

    def checked_name(self, name: str, config: KVCacheConfig, *, but: OwnPreset | None = None) -> str:
        """The tidy name, or VeloxQuantError when it is empty or another preset of the method has it."""
        name = tidy_name(name)
        if not name:
            raise VeloxQuantError("A preset needs a name: write one first.")
        if name.casefold() in self._taken(config, but):
            raise VeloxQuantError(f"{config.label} has a preset {name} already: choose another name.")
        return name

    def free_name(self, name: str, config: KVCacheConfig) -> str:
        """``name``, or ``name 2`` and so on where it is taken."""
        name, taken = tidy_name(name), self._taken(config)
        tries = [name, *(f"{name[: LONGEST_NAME - 5]} {number}" for number in range(2, len(taken) + 3))]
        return next(one for one in tries if one.casefold() not in taken)

    def _taken(self, config: KVCacheConfig, but: OwnPreset | None = None) -> set[str]:
        own = [preset.name for preset in self.of(config.method) if preset is not but]
        return {name.casefold() for name in ("Custom", *config.presets, *own)}

    def _write(self, preset: OwnPreset) -> None:
        if preset.path is not None:
            write_preset(preset, preset.path)

    def _free_path(self, name: str) -> Path:
        stem = "".join(c if c.isalnum() else "-" for c in name.casefold())[:40].strip("-") or "preset"
        tries = (stem, *(f"{stem}-{number}" for number in range(2, _MOST_FILES + 3)))
        return next(path for each in tries if not (path := self._folder / f"{each}.json").exists())


def _order(error: "ValidationError") -> tuple[int, int]:
    """What kind of file it is comes first, then what is wrong nearest to its top."""
    path = list(error.absolute_path)
    return (0 if path[:1] in (["format"], ["version"]) else 1, len(path))


def _why(error: "ValidationError", record: Any) -> str:
    """A schema's refusal in plain words, without a full stop."""
    place = ".".join(map(str, error.absolute_path))
    known = list(_schema()["properties"])
    if error.validator == "const" and place == "version":
        return "another version of the studio wrote it"
    if error.validator == "const":
        return f"its format is not {FORMAT}"
    if error.validator == "required":
        return f"{_list([name for name in known if name not in record])} missing"
    if error.validator == "additionalProperties":
        unknown = next(name for name in record if name not in known)
        near = difflib.get_close_matches(unknown, known, n=2, cutoff=0.5) or known
        return f"it has '{unknown[:40]}', and the nearest names known are {', '.join(near)}"
    if error.validator == "type":
        return f"{place or 'its content'} has the wrong type"
    return f"{place or 'it'} is too long or empty"


def _list(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names) + (" is" if len(names) == 1 else " are")


@cache
def _schema() -> dict[str, Any]:
    text = files("studio.core").joinpath("preset.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _validator() -> "Draft202012Validator":
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_schema())
