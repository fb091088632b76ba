"""``veloxquant plan`` as a person calls it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.paths import models_dir
from veloxquant_mlx.plan_command import memory


@pytest.mark.parametrize(
    ("said", "meant"),
    [("16GB", 16 * 10**9), ("16 gib", 16 * 2**30), ("1.5GB", 1_500_000_000), ("512MiB", 2**29), ("900", 900)],
)
def test_sizes(said: str, meant: int) -> None:
    assert memory(said) == meant


@pytest.mark.parametrize("said", ["", "GB", "16 apples", "-1GB", "0GB", "1e3"])
def test_what_is_no_size_is_said(said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", str(tmp_path), f"--memory={said}"])
    assert "is no size: write it as 16GB" in capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("plan") / "gemma", "gemma3", bits=4)


def test_the_table_names_every_preset(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(folder), "--memory", "16GB", "--device", "metal"]) == 0
    said = capsys.readouterr().out
    assert "gemma on Metal, 16.00 GB of memory (as given)." in said
    assert "1 of 3 slots compressed: 2 keep a 16-token window of their own." in said
    for words in ("skvq:Balanced", "svdq_skvq:Smallest", "affine", "plain", "running pass", "it fits."):
        assert words in said


def test_json_adds_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", str(folder), "--memory", "1GB", "--tokens", "1000", "--preset", "Smallest", "--json"]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    need = told["need_bytes"]
    assert need["total"] == need["weights"] + need["cache"] + need["working"]
    assert told["method"] == "skvq:Smallest" and told["tokens"] == 1000
    # One slot of 2 heads and 2 x 32 channels at 2 bytes; two that keep 16 rows of them.
    assert told["cache_bytes_at_16_bits"] == 2 * 64 * 2 * (1000 + 2 * 16)
    assert told["machine"]["memory"] == 10**9


def test_a_memory_that_is_too_small_is_no_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(folder), "--memory", "10KB"]) == 0
    said = capsys.readouterr().out
    assert "it does not fit." in said and "none" in said


def test_names_of_models_on_this_machine_are_known(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VELOXQUANT_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    downloaded = models_dir() / "somebody" / "gemma"
    cached = tmp_path / "hub" / "models--another--gemma" / "snapshots" / "0a1b"
    for copy in (downloaded, cached):
        shutil.copytree(folder, copy)
    for name in ("somebody/gemma", "another/gemma"):
        assert main(["plan", name, "--method", "skvq:near-lossless", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["method"] == "skvq:Near-lossless"
    assert main(["plan", "nobody/gemma"]) == 1
    said = capsys.readouterr().err
    assert "There is no model nobody/gemma on this machine" in said and said.count("\n") == 1
    assert "'veloxquant download nobody/gemma'" in said


def test_a_folder_that_is_no_model_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(tmp_path / "nowhere")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("veloxquant: ") and said.count("\n") == 1
