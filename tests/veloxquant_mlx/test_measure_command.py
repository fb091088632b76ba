"""``veloxquant measure`` from its arguments to table, JSON and CSV."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx import fidelity
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.errors import Cancelled

AFFINE = "affine,affine_bits=2,affine_group_size=32"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def command(folder: Path) -> list[str]:
    short = ["--tokens", "90", "--skip", "10", "--start", "32", "--block", "32", "--decode-steps", "2"]
    return ["measure", "--model", str(folder), *short]


def test_the_table_has_every_method_and_says_what_figures_are(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--method", "skvq:smallest", "--method", AFFINE, "--slots"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(
        "tiny, CPU float32, tokens 10 to 100 of twelfth-night in blocks of 32, scored from 32."
    )
    for part in out.split("\n\n")[1:4]:
        lines = part.splitlines()
        assert [line.split()[0] for line in lines[2:5]] == ["plain", "skvq:Smallest", AFFINE]
        assert "easured" in part
    assert "nats per token" in out and "MB" in out and "tokens/s" in out and "Counted" in out
    assert f"slots of {AFFINE}" in out and "slots of skvq:Smallest" in out
    assert max(map(len, out.splitlines())) < 130


def test_json_is_one_object_with_the_reference(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--method", AFFINE, "--json", "--text", "hamlet"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["model"] == "tiny"
    assert record["text"] == {"name": "hamlet", "skipped": 10}
    assert record["complete"] and record["tokens"] == record["tokens_done"] == 90
    assert record["reference"]["name"] == "plain"
    (method,) = record["methods"]
    assert method["config"]["affine_bits"] == 2
    assert method["positions"] == 58
    assert method["kl_nats"]["mean"] > 0
    assert method["slots"] == []


def test_one_at_a_time(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--method", AFFINE, "--decode"]) == 0
    out = capsys.readouterr().out
    assert "one at a time from 32." in out
    assert "58 single tokens" in out


def test_csv_has_one_row_a_method(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    methods = ["--method", AFFINE, "--method", "affine,affine_group_size=128", "--slots"]
    assert main([*command, *methods, "--csv", str(file)]) == 0
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["method"] for row in rows] == ["plain", AFFINE, "affine,affine_group_size=128"]
    assert [row["is_reference"] for row in rows] == ["True", "False", "False"]
    assert float(rows[1]["kl_mean_nats"]) > 0 == float(rows[0]["kl_mean_nats"])
    assert float(rows[1]["key_bits_above_limit_mean"]) > 0
    assert rows[2]["kl_mean_nats"] == "" and "128" in rows[2]["problem"]
    assert list(tmp_path.iterdir()) == [file]


def test_the_usual_method_is_a_preset(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    assert "skvq:Balanced" in capsys.readouterr().out


def test_a_text_of_one_s_own(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("the rain in spain stays mainly in the plain " * 20)
    assert main([*command, "--method", AFFINE, "--text", str(file)]) == 0
    assert "of mine.txt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--text", "/nowhere/absent.txt"], "There is no text file"),
        (["--text", "BINARY"], "is not a UTF-8 text file"),
        (["--text", "SHORT"], "short.txt has"),
        (["--method", "skvq:unheard"], "has presets"),
        (["--method", "unheard"], "no method 'unheard'"),
        (["--method", "skvq,skvq_bits_key=0"], "skvq_bits_key must be"),
        (["--start", "90"], "Scores begin at token 90"),
        (["--tokens", "5000"], "reads at most 4,096"),
        (["--csv", "/nowhere/out.csv"], "can't be written"),
        (["--model", "/nowhere/model"], "nowhere"),
    ],
)
def test_errors_are_one_sentence(
    command: list[str], extra: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)))
    (tmp_path / "short.txt").write_text("brief")
    places = {"BINARY": str(tmp_path / "binary.bin"), "SHORT": str(tmp_path / "short.txt")}
    assert main([*command, *(places.get(word, word) for word in extra)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("veloxquant: ") and says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("wrong", [["--tokens", "0"], ["--skip", "-1"], ["--block", "x"]])
def test_wrong_numbers_are_refused_by_the_parser(command: list[str], wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command, *wrong])


def test_ctrl_c_keeps_what_is_done(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = fidelity.measure

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        def stop(share: float | None, words: str) -> None:
            if words.startswith("64 of"):
                raise KeyboardInterrupt

        return original(*arguments, **settings | {"progress": stop})

    monkeypatch.setattr(fidelity, "measure", interrupted)
    file = tmp_path / "out.csv"
    assert main([*command, "--method", AFFINE, "--csv", str(file)]) == 130
    out, err = capsys.readouterr()
    assert "Measured over 32 positions" in out
    assert "stopped after 64 of 90 tokens" in err
    assert [row["complete"] for row in csv.DictReader(file.read_text().splitlines())] == ["False", "False"]


def test_ctrl_c_before_the_first_score_is_a_plain_stop(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*arguments: Any, **settings: Any) -> Any:
        raise Cancelled

    monkeypatch.setattr(fidelity, "measure", stopped)
    assert main([*command, "--method", AFFINE]) == 130
    assert "stopped." in capsys.readouterr().err
