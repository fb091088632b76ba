"""Working alone in a folder, and what killed runs left there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gguf_writer import tiny_gguf
from veloxquant_mlx import paths
from veloxquant_mlx.errors import Cancelled
from veloxquant_mlx.models.disk import alone, sweep
from veloxquant_mlx.models.gguf import import_gguf
from veloxquant_mlx.progress import silent


def left_by_a_killed_run(folder: Path, name: str) -> Path:
    """What ``atomic_folder`` has on the disk while its block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    left = folder / f".{name}.x7k2.part"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    return left


def test_only_what_is_left_of_the_names_goes(tmp_path: Path) -> None:
    left = left_by_a_killed_run(tmp_path, "a[1]")
    old = left.with_suffix(".old")
    old.mkdir()
    others = [left_by_a_killed_run(tmp_path, "b"), tmp_path / "a[1]", tmp_path / ".a[1].kept"]
    for folder in others[1:]:
        folder.mkdir()
    sweep(tmp_path, "a[1]")
    assert not left.exists() and not old.exists()
    assert all(folder.exists() for folder in others)


def test_an_import_clears_away_what_a_killed_one_left(tmp_path: Path) -> None:
    left = left_by_a_killed_run(paths.models_dir(), "model")
    folder = import_gguf(tiny_gguf(tmp_path / "model.gguf"))
    assert not left.exists()
    assert os.listdir(paths.models_dir()) == [folder.name]


def test_a_second_one_waits_and_can_be_cancelled(tmp_path: Path) -> None:
    said: list[str] = []

    def give_up(fraction: float | None, words: str) -> None:
        said.append(words)
        raise Cancelled

    with alone(tmp_path, silent), pytest.raises(Cancelled), alone(tmp_path, give_up):
        pytest.fail("two at once")
    assert "another window" in said[0]
    with alone(tmp_path, give_up):
        pass


def test_a_killed_holder_holds_no_longer(tmp_path: Path) -> None:
    code = (
        "import sys, signal; from pathlib import Path\n"
        "from veloxquant_mlx.models.disk import alone\n"
        "from veloxquant_mlx.progress import silent\n"
        "with alone(Path(sys.argv[1]), silent):\n"
        "    print('held', flush=True); signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
    process.send_signal(signal.SIGKILL)
    process.wait()

    def never_wait(fraction: float | None, words: str) -> None:
        pytest.fail(words)

    with alone(tmp_path, never_wait):
        pass
