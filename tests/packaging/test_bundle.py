"""Lists and archives of a built app say nothing of when and by whom it was built."""

import hashlib
import os
import tarfile
from pathlib import Path

import bundle
import pytest


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / "inner").mkdir(parents=True)
    (folder / "program").write_bytes(b"abc")
    (folder / "inner" / "data").write_bytes(b"12345")
    (folder / "link").symlink_to("inner/data")
    return folder


def test_every_file_is_listed_with_its_hash(app: Path) -> None:
    assert bundle.file_list(app).splitlines() == [
        f"{hashlib.sha256(b'12345').hexdigest()} 5 inner/data",
        "link inner/data link",
        f"{hashlib.sha256(b'abc').hexdigest()} 3 program",
    ]
    assert bundle.size(app) == 8


def test_the_archive_is_the_same_whoever_packs_it_whenever(app: Path, tmp_path: Path) -> None:
    first = bundle.archive(app, tmp_path / "first.tar.xz").read_bytes()
    os.utime(app / "program", (1, 1))
    assert bundle.archive(app, tmp_path / "second.tar.xz").read_bytes() == first
    with tarfile.open(tmp_path / "first.tar.xz") as packed:
        assert packed.getnames() == ["app", "app/inner", "app/inner/data", "app/link", "app/program"]
        assert {entry.uname for entry in packed} == {""}
        assert packed.getmember("app/link").linkname == "inner/data"


def test_the_day_of_release_is_a_day() -> None:
    assert bundle.released() % 86_400 == 0
