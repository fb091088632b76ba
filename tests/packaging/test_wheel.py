"""A wheel that lacks a file of ours is noticed."""

import zipfile
from pathlib import Path

import wheel
from recipe import data_files


def test_only_what_is_missing_is_named(tmp_path: Path) -> None:
    needed = [f"{folder}/{Path(source).name}" for source, folder in data_files()]
    needed += ["veloxquant_mlx/py.typed", "studio/__main__.py"]
    made = tmp_path / "some.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name in needed:
            if name not in ("assets/icon.svg", "veloxquant_mlx/py.typed"):
                archive.writestr(name, "")
    assert wheel.lacking(made) == ["assets/icon.svg", "veloxquant_mlx/py.typed"]
