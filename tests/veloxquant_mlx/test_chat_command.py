"""``veloxquant chat`` with a file that keeps the cache for the next prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.models.load import load_model
from veloxquant_mlx.storage import load

Capture = pytest.CaptureFixture[str]
LONG = "the inner thing is on the table and here is more of it " * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama")


def _words(folder: Path, prompt: str, *more: str) -> list[str]:
    return ["chat", "--model", str(folder), "--prompt", prompt, "--max-tokens", "8", *more]


def _record(capsys: Capture, words: list[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _refusal(capsys: Capture, words: list[str]) -> str:
    assert main(words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.strip()


def test_a_saved_conversation_goes_on_without_reading_it_again(
    capsys: Capture, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "chat.cache"
    told = ("--set", "skvq_window=16", "--set", "skvq_recent=8")
    first = _record(capsys, _words(folder, LONG, *told, "--save", str(file)))
    assert first["kept_tokens"] == 0
    second = _record(capsys, _words(folder, "and now?", "--resume", str(file), "--save", str(file)))
    assert second["config"] == first["config"]
    # What the random model wrote may read back as other tokens: its prompt at least is kept.
    assert second["kept_tokens"] > first["prompt_tokens"] - 32
    assert second["prompt_tokens"] < 100
    assert second["cache"]["tokens"] == (
        second["kept_tokens"] + second["prompt_tokens"] + second["reply_tokens"]
    )
    turns = load(file, load_model(folder)).turns
    assert [role for role, _ in turns] == ["user", "assistant", "user", "assistant"]
    assert (turns[0][1], turns[1][1], turns[3][1]) == (LONG, first["reply"], second["reply"])


def test_the_figures_tell_what_was_kept(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.cache"
    assert main(_words(folder, LONG, "--preset", "Balanced", "--save", str(file))) == 0
    assert "more were in the cache" not in capsys.readouterr().out
    assert main(_words(folder, "and now?", "--resume", str(file))) == 0
    assert "more were in the cache" in capsys.readouterr().out


def test_a_file_that_does_not_fit_is_refused_before_a_word(
    capsys: Capture, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "chat.cache"
    file.write_bytes(b"something else")
    assert "no saved cache" in _refusal(capsys, _words(folder, "hello", "--resume", str(file)))
    assert main(_words(folder, "hello", "--save", str(file))) == 0
    capsys.readouterr()
    other = tiny_folder(tmp_path / "other", num_hidden_layers=2)
    assert "tiny-llama" in _refusal(capsys, _words(other, "hello", "--resume", str(file)))


@pytest.mark.parametrize(
    "more", [["--preset", "Smallest"], ["--method", "plain"], ["--set", "skvq_window=64"]]
)
def test_a_saved_cache_keeps_its_own_setting(
    capsys: Capture, folder: Path, tmp_path: Path, more: list[str]
) -> None:
    words = _words(folder, "hello", "--resume", str(tmp_path / "chat.cache"), *more)
    assert "its own setting" in _refusal(capsys, words)


def test_a_place_that_is_not_there_is_told_before_the_model_is_loaded(
    capsys: Capture, tmp_path: Path
) -> None:
    words = _words(tmp_path / "no-model", "hello", "--save", str(tmp_path / "no" / "chat.cache"))
    assert "no folder" in _refusal(capsys, words)
