"""Downloads from a stand-in server that speaks the Hub's protocol."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.hub_server import Hub, serving
from tests.tiny import tiny_folder
from veloxquant_mlx import paths
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.errors import Cancelled, ModelError
from veloxquant_mlx.models import disk, hub
from veloxquant_mlx.models.find import find_models

NAME = "people/tiny"
LEFT_OUT = {"code.py", "README.md"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    made = Hub()
    made.add(NAME, tiny_folder(tmp_path / "source"), code__py=b"print()", README__md=b"# Tiny")
    with serving(made):
        yield made


def fetch(server: Hub, progress: object = None) -> Path:
    return hub.download(NAME, progress, endpoint=server.url)  # type: ignore[arg-type]


def whole_size(server: Hub) -> int:
    """Bytes of what is fetched."""
    return sum(len(data) for name, data in server.files[NAME].items() if name not in LEFT_OUT)


def stop_at(bytes_come: int, server: Hub) -> object:
    """A progress that stops once so many bytes are here."""
    whole = sum(
        len(data) for name, data in server.files[NAME].items() if name not in ("code.py", "README.md")
    )

    def progress(fraction: float | None, words: str) -> None:
        if fraction is not None and fraction * whole >= bytes_come:
            raise Cancelled

    return progress


def weights(server: Hub) -> bytes:
    return server.files[NAME]["model.safetensors"]


def test_a_model_arrives_whole_and_is_found(server: Hub) -> None:
    told: list[tuple[float | None, str]] = []
    folder = fetch(server, lambda fraction, words: told.append((fraction, words)))
    assert folder == paths.models_dir() / "people" / "tiny"
    assert {p.name for p in folder.iterdir()} == {*server.files[NAME]} - LEFT_OUT | {hub.HUB_NOTE}
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == server.files[NAME][name]
    shares = [fraction for fraction, _ in told if fraction is not None]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert any(words.startswith(f"Fetching {NAME}, ") and " of " in words for _, words in told)
    found = [info for info in find_models() if info.path == folder]
    assert [(info.name, info.source, info.problem) for info in found] == [(NAME, "this app", None)]
    assert hub.unfinished() == []


def test_what_is_here_is_not_asked_for_again(server: Hub) -> None:
    fetch(server)
    asked = len(server.asked)
    server.status = 500
    assert fetch(server).is_dir() and len(server.asked) == asked


def test_a_stopped_download_goes_on_at_the_byte_it_stopped(server: Hub) -> None:
    server.hold = threading.Event()
    with pytest.raises(Cancelled):
        fetch(server, stop_at(whole_size(server) - len(weights(server)) * 3 // 4, server))
    server.hold.set()
    server.hold = None
    ((model, come),) = hub.unfinished()
    assert model.repository == NAME and 0 < come < model.size
    assert not (paths.models_dir() / NAME).exists()
    assert NAME not in {info.name for info in find_models()}
    server.asked.clear()
    folder = fetch(server)
    assert (folder / "model.safetensors").read_bytes() == weights(server)
    file, asked = server.asked[0]
    assert file == "model.safetensors" and int(asked.removeprefix("bytes=").rstrip("-")) > 0


def test_the_commit_stays_the_same_when_the_repository_moves_on(server: Hub) -> None:
    with pytest.raises(Cancelled):
        fetch(server, stop_at(200, server))
    before = hub.unfinished()[0][0].commit
    server.files[NAME]["LICENSE"] = b"other"
    assert json.loads((fetch(server) / hub.HUB_NOTE).read_text())["commit"] == before


def test_a_connection_that_breaks_is_taken_up_again(server: Hub) -> None:
    server.limit = len(weights(server)) // 3
    assert (fetch(server) / "model.safetensors").read_bytes() == weights(server)
    begun = [
        int(asked.removeprefix("bytes=").rstrip("-")) for file, asked in server.asked if "model." in file
    ]
    assert len(begun) >= 3 and begun == sorted(begun)


def test_one_that_breaks_without_a_byte_is_given_up(server: Hub) -> None:
    server.limit = 0
    with pytest.raises(ModelError, match="can't be reached"):
        fetch(server)
    assert len(server.asked) == 3


def test_a_server_without_ranges_begins_anew(server: Hub) -> None:
    server.knows_ranges = False
    with pytest.raises(Cancelled):
        fetch(server, stop_at(whole_size(server) - 100, server))
    assert (fetch(server) / "model.safetensors").read_bytes() == weights(server)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_file_that_arrives_damaged_is_removed(server: Hub, file: str) -> None:
    server.damages = file
    with pytest.raises(ModelError, match=f"{file}.*damaged"):
        fetch(server)
    assert not (paths.models_dir() / NAME).exists()
    server.damages = None
    assert (fetch(server) / file).read_bytes() == server.files[NAME][file]


def test_the_disk_is_looked_at_first(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: disk.shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(ModelError, match="make room"):
        fetch(server)
    assert server.asked == []


def test_what_is_forgotten_leaves_nothing(server: Hub) -> None:
    with pytest.raises(Cancelled):
        fetch(server, stop_at(200, server))
    hub.forget(NAME)
    assert hub.unfinished() == [] and list((paths.models_dir() / "people").iterdir()) == []


def test_refusals_are_one_sentence(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal() -> str:
        with pytest.raises(ModelError) as caught:
            fetch(server)
        assert str(caught.value).count(". ") == 0
        return str(caught.value)

    kept = server.files.pop(NAME)
    assert "There is no model people/tiny" in refusal()
    server.files[NAME] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    assert "no model*.safetensors" in refusal()
    server.files[NAME] = kept
    server.gated.add(NAME)
    assert "accept its terms" in refusal()
    server.status = 503
    assert "answered 503" in refusal()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in refusal()
    assert not (paths.models_dir() / NAME).exists()


def test_without_a_network_one_sentence_says_so(server: Hub) -> None:
    with pytest.raises(ModelError, match="can't be reached: check the network"):
        hub.download(NAME, endpoint="http://127.0.0.1:9")


def test_a_folder_of_another_kind_is_left_alone(server: Hub) -> None:
    own = tiny_folder(paths.models_dir() / NAME)
    with pytest.raises(ModelError, match="move it away"):
        fetch(server)
    assert (own / "config.json").is_file() and server.asked == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" people/tiny ", "people/tiny"),
        ("https://hub.example/people/tiny/tree/main", "people/tiny"),
        ("gpt2", "gpt2"),
        ("Qwen/Qwen2.5-7B_x", "Qwen/Qwen2.5-7B_x"),
    ],
)
def test_names_and_addresses(text: str, name: str) -> None:
    assert hub.repository_of(text) == name


@pytest.mark.parametrize("text", ["", "a/b/c", "../up", "a/..", "a b", "/etc/passwd", "a/.hidden", "ü/x"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ModelError, match="owner/name"):
        hub.repository_of(text)


def test_the_command_fetches_and_says_where(server: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    environment = os.environ | {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "veloxquant_mlx", "download", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = run(NAME, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["folder"] == str(paths.models_dir() / NAME)
    assert main(["chat", "--model", NAME, "--prompt", "a", "--max-tokens", "1", "--json"]) == 0
    missing = run("people/none")
    assert missing.returncode == 1 and "There is no model people/none" in missing.stderr
