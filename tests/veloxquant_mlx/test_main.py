"""The command line: what it prints, what it refuses, and with which exit code."""

import argparse
import errno
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gguf_writer import tiny_gguf
from tests.tiny import tiny_folder
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.arguments import add_sampling, read_sampling, resolve_model
from veloxquant_mlx.config import methods
from veloxquant_mlx.errors import QuantizerConfigError, VeloxQuantError
from veloxquant_mlx.progress import silent
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.spelling import read_config
from veloxquant_mlx.telemetry import BYTE_KINDS

PROMPT = "the inner thing is on the table and here is more of it"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama")


def chat(folder: Path, *more: str, prompt: str = PROMPT) -> list[str]:
    return [
        "chat", "--model", str(folder), "--prompt", prompt, "--max-tokens", "8",
        "--set", "skvq_window=16", *more,
    ]  # fmt: skip


def refusal(capsys: Capture, arguments: list[str]) -> str:
    """The one sentence of a command that fails."""
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("veloxquant: ")
    assert lines[0].endswith(".")
    return lines[0]


def test_chat_prints_the_reply_the_table_and_the_figures(capsys: Capture, folder: Path) -> None:
    assert main(chat(folder)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "slot" in out
    assert "All 3 slots compressed." in out
    lines = out.splitlines()
    header = next(line for line in lines if line.startswith("slot"))
    for column in ("codes", "parameters", "counted", "resident", "16-bit", "ratio", "frontier"):
        assert column in header
    table = lines[lines.index(header) :]
    assert [line.split()[0] for line in table[2:6]] == ["0", "1", "2", "all"]
    assert "8 written" in lines[-1]
    assert lines[-1].endswith(".")


def test_chat_as_json_is_one_object_with_every_slot(capsys: Capture, folder: Path) -> None:
    assert main(chat(folder, "--json")) == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = json.loads(out)
    assert told["model"] == "tiny-llama"
    assert told["prompt"] == PROMPT
    assert told["config"]["skvq_window"] == 16
    assert told["reply_tokens"] == 8
    assert told["reason"] == "length"
    assert told["cache"]["tokens"] == told["prompt_tokens"] + 8
    slots = told["cache"]["slots"]
    assert [slot["slot"] for slot in slots] == [0, 1, 2]
    for slot in slots:
        assert set(slot["counted"]) == set(BYTE_KINDS)
        assert slot["gauges"]["frontier"] == told["cache"]["tokens"] // 16 * 16
        assert slot["resident_bytes"] == sum(slot["counted"].values())


def test_text_and_json_tell_the_same_reply(capsys: Capture, folder: Path) -> None:
    main(chat(folder, "--json"))
    reply = json.loads(capsys.readouterr().out)["reply"]
    main(chat(folder))
    assert reply
    assert capsys.readouterr().out.startswith(reply.rstrip("\ufffd"))


def test_a_prompt_can_come_from_standard_input(
    capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from elsewhere"))
    assert main(chat(folder, "--json", prompt="-")) == 0
    assert json.loads(capsys.readouterr().out)["prompt"] == "from elsewhere"


@pytest.mark.parametrize("method", list(methods()))
def test_every_method_answers(capsys: Capture, folder: Path, method: str) -> None:
    extra = ["--set", "affine_group_size=32"] if method == "affine" else []
    words = ["chat", "--model", str(folder), "--prompt", "hello", "--max-tokens", "2", "--json"]
    assert main([*words, "--method", method, *extra]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["method"] == method


@pytest.mark.parametrize("prompt", ["", "   ", "\n"])
def test_an_empty_prompt_is_refused(capsys: Capture, folder: Path, prompt: str) -> None:
    assert "prompt is empty" in refusal(capsys, chat(folder, prompt=prompt))


def test_a_prompt_longer_than_the_context_is_refused(capsys: Capture, tmp_path: Path) -> None:
    small = tiny_folder(tmp_path / "small", max_position_embeddings=32)
    sentence = refusal(capsys, chat(small, prompt="word " * 50))
    assert "32" in sentence
    assert "small" in sentence


def test_a_missing_model_is_refused(capsys: Capture, tmp_path: Path) -> None:
    assert "nowhere" in refusal(capsys, chat(tmp_path / "nowhere"))


def test_a_folder_that_is_no_model_is_refused(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty" in refusal(capsys, chat(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--set", "skvq_bits_key=9"], "skvq_bits_key"),
        (["--set", "skvq_bits_key=NaN"], "skvq_bits_key"),
        (["--set", "skvq_bit_key=4"], "skvq_bits_key"),
        (["--set", "skvq_bits_key"], "FIELD=VALUE"),
        (["--set", "skvq_rotate=maybe"], "skvq_rotate"),
        (["--method", "turbo"], "turbo"),
        (["--preset", "Fastest"], "Balanced"),
    ],
)
def test_a_bad_setting_is_refused_by_name(
    capsys: Capture, folder: Path, words: list[str], named: str
) -> None:
    assert named in refusal(capsys, chat(folder, *words))


def test_damage_to_the_answer_is_one_sentence(
    capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise VeloxQuantError("The cache cannot take this.")

    monkeypatch.setattr("veloxquant_mlx.live.generate", broken)
    assert refusal(capsys, chat(folder)) == "veloxquant: The cache cannot take this."


def test_control_c_ends_with_130(capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veloxquant_mlx.models.load.load_model", interrupted)
    assert main(chat(folder)) == 130
    assert "stopped" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-3", "many"])
def test_a_number_of_tokens_is_at_least_one(capsys: Capture, folder: Path, text: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(chat(folder, "--max-tokens", text))
    assert ended.value.code == 2
    assert "--max-tokens" in capsys.readouterr().err


def test_settings_come_from_preset_and_assignments() -> None:
    config = read_config("skvq", "balanced", ["skvq_bits_key=5", "skvq_max_ctx=None", "skvq_rotate=False"])
    told = config.as_dict()
    assert (told["skvq_bits_key"], told["skvq_max_ctx"], told["skvq_rotate"]) == (5, None, False)
    assert told["skvq_window"] == methods()["skvq"].presets["Balanced"]["skvq_window"]


@pytest.mark.parametrize("name", ["method", "head_dim=x"])
def test_what_is_no_assignment_is_refused(name: str) -> None:
    with pytest.raises(VeloxQuantError):
        read_config("skvq", None, [name])


def test_the_method_cannot_be_set_twice() -> None:
    with pytest.raises(QuantizerConfigError):
        read_config("skvq", None, ["method=plain"])


def test_methods_lists_every_parameter(capsys: Capture) -> None:
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    for key, declared in methods().items():
        assert f"{key}: {declared.label}" in out
        for spec in declared.fields():
            assert f"  {spec.name} = {spec.default}" in out
        for preset in declared.presets:
            assert f"preset {preset}:" in out


def test_methods_as_json(capsys: Capture) -> None:
    assert main(["methods", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == list(methods())
    bits = next(p for p in told["skvq"]["parameters"] if p["name"] == "skvq_bits_key")
    assert (bits["type"], bits["low"], bits["high"], bits["default"]) == ("int", 1, 8, 2)


def test_models_lists_what_is_there(capsys: Capture, folder: Path) -> None:
    assert main(["models", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "tiny-llama" in out
    assert "3 of 3" in out
    assert main(["models", str(folder), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["name"], told["architecture"], told["kv_slots"]) == ("tiny-llama", "llama", 3)


def test_no_models_is_a_sentence_and_an_empty_list(capsys: Capture) -> None:
    assert main(["models"]) == 0
    assert "No models found" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_imported_file_can_be_chatted_with(capsys: Capture, tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "small.gguf")
    target = tmp_path / "imported"
    assert main(["import", str(file), "--to", str(target)]) == 0
    assert str(target) in capsys.readouterr().out
    assert main(chat(target, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["reply_tokens"] == 8


def test_an_import_without_a_place_goes_to_this_app_s_models(
    capsys: Capture, tmp_path: Path, home: Path
) -> None:
    assert main(["import", str(tiny_gguf(tmp_path / "small.gguf")), "--json"]) == 0
    made = Path(json.loads(capsys.readouterr().out)["folder"])
    assert made == home / "data" / "models" / "small"
    assert main(["models", "--json"]) == 0
    assert [m["source"] for m in json.loads(capsys.readouterr().out)] == ["this app"]


@pytest.mark.parametrize("content", [b"", b"not a model at all"])
def test_a_damaged_file_is_refused_and_leaves_nothing(
    capsys: Capture, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    assert "bad.gguf" in refusal(capsys, ["import", str(file), "--to", str(tmp_path / "out")])
    assert sorted(item.name for item in tmp_path.iterdir()) == ["bad.gguf"]


def test_a_gguf_file_is_not_a_folder_to_chat_with(capsys: Capture, tmp_path: Path) -> None:
    assert "import it first" in refusal(capsys, chat(tiny_gguf(tmp_path / "small.gguf")))


def test_verbose_lets_the_traceback_through(folder: Path) -> None:
    with pytest.raises(VeloxQuantError):
        main(chat(folder, "--verbose", prompt=""))


def test_a_model_name_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_model("~/models/one", silent) == tmp_path / "models" / "one"


def test_without_a_command_it_says_how_to_use_it(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "usage: veloxquant" in capsys.readouterr().err


class _Refusing(io.StringIO):
    """A standard output whose other end is not what it was."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


def test_a_reader_that_went_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, folder: Path
) -> None:
    monkeypatch.setattr("sys.stdout", _Refusing(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    for arguments in (["methods", "--json"], ["models"], chat(folder), chat(folder, "--json")):
        assert main(arguments) == 141
    assert capsys.readouterr().err == ""


def test_a_pipe_closed_early_leaves_no_word(folder: Path) -> None:
    """In a process of its own: Python writes what is left at its end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "veloxquant_mlx", *chat(folder, "--no-openblas")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_a_disk_that_is_full_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stdout", _Refusing(OSError(errno.ENOSPC, "No space left on device")))
    assert main(["methods"]) == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said and len(said.splitlines()) == 1


def test_the_unexpected_is_one_sentence_that_leads_to_the_details(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def break_it() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("veloxquant_mlx.__main__.methods", break_it)
    assert "RuntimeError" in (said := refusal(capsys, ["methods"])) and "--verbose" in said
    with pytest.raises(RuntimeError, match="boom"):
        main(["methods", "--verbose"])


@pytest.mark.parametrize(
    "flag", ["--top-p=0", "--top-k=-1", "--top-k=1.5", "--min-p=2", "--repetition-penalty=0.5", "--seed=x"]
)
def test_sampling_out_of_range_is_refused(flag: str, capsys: Capture, folder: Path) -> None:
    with pytest.raises(SystemExit):
        main(chat(folder, flag))
    assert f"argument {flag.partition('=')[0]}: " in capsys.readouterr().err


def test_everything_sampling_declares_can_be_said() -> None:
    parser = argparse.ArgumentParser()
    add_sampling(parser)
    assert read_sampling(parser.parse_args([])) == Sampling()
    flags = "--temperature=0.7 --top-p=0.9 --top-k=40 --min-p=0.05 --repetition-penalty=1.1 --seed=7"
    said = parser.parse_args(flags.split(" "))
    assert read_sampling(said) == Sampling(0.7, 0.9, 40, 0.05, 1.1, 7)


def test_the_same_seed_gives_the_same_reply(capsys: Capture, folder: Path) -> None:
    def reply(seed: str) -> str:
        flags = ("--json", "--temperature=2", "--max-tokens=24", f"--seed={seed}")
        assert main(chat(folder, *flags)) == 0
        return str(json.loads(capsys.readouterr().out)["reply"])

    assert reply("1") == reply("1") != reply("2")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "warm"])
def test_temperature_is_a_number_from_zero_on(value: str, capsys: Capture, folder: Path) -> None:
    with pytest.raises(SystemExit):
        main(chat(folder, f"--temperature={value}"))
    assert "--temperature" in capsys.readouterr().err
