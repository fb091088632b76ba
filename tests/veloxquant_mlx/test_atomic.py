"""Whoever looks sees the old or the new, never half of it."""

import os
import stat
from pathlib import Path

import pytest

from veloxquant_mlx.atomic import atomic_folder, write_atomic
from veloxquant_mlx.errors import Cancelled


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_a_file_is_written_readable_for_all(tmp_path: Path) -> None:
    write_atomic(tmp_path / "report.json", b"new")
    assert (tmp_path / "report.json").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o644
    assert names(tmp_path) == ["report.json"]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old and longer")
    write_atomic(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failing_disk_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "nowhere" / "f", b"new")
    assert names(tmp_path) == []


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    with atomic_folder(target) as working:
        (working / "config.json").write_text("{}")
        assert not target.exists()
        assert working.parent == target.parent
    assert names(target) == ["config.json"]
    assert names(target.parent) == ["model"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o755


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("old")
    with atomic_folder(target) as working:
        (working / "new").write_text("new")
        assert names(target) == ["old"]
    assert names(target) == ["new"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [OSError(28, "full"), Cancelled(), KeyboardInterrupt()])
@pytest.mark.parametrize("existing", [True, False])
def test_a_broken_off_folder_leaves_nothing(tmp_path: Path, error: BaseException, existing: bool) -> None:
    target = tmp_path / "model"
    if existing:
        target.mkdir()
        (target / "old").write_text("old")
    with pytest.raises(type(error)), atomic_folder(target) as working:
        (working / "half").write_text("half")
        raise error
    assert names(tmp_path) == (["model"] if existing else [])
    assert not existing or names(target) == ["old"]


def test_a_rename_that_fails_keeps_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("old")
    real = os.replace

    def refuse_the_new(source: Path, destination: Path) -> None:
        if destination == target and str(source).endswith(".part"):
            raise OSError(5, "Input/output error")
        real(source, destination)

    monkeypatch.setattr(os, "replace", refuse_the_new)
    with pytest.raises(OSError, match="Input/output"), atomic_folder(target) as working:
        (working / "new").write_text("new")
    assert target.is_dir()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["model"]
