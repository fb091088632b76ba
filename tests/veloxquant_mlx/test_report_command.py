"""``veloxquant report`` as a person calls it."""

import json
import os
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from studio.core.report import write_report
from tests.veloxquant_mlx.report.sample import sample
from veloxquant_mlx.__main__ import main


@pytest.fixture
def run_json(tmp_path: Path) -> Path:
    file = tmp_path / "run.json"
    write_report(file, sample())
    return file


def test_every_form_is_written(run_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"--html": "a.html", "--md": "a.md", "--csv": "a.csv"}
    asked = [word for flag, name in names.items() for word in (flag, str(tmp_path / name))]
    assert main(["report", str(run_json), *asked]) == 0
    assert capsys.readouterr().out.count("Written to ") == 3
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "a.md").read_text("utf-8").startswith("# Memory report")
    assert (tmp_path / "a.csv").read_text("utf-8").startswith("tokens,slot,replaced,codes_bytes_counted")


def test_without_a_form_it_is_printed(run_json: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run_json)]) == 0
    assert capsys.readouterr().out.startswith("# Memory report: SmolLM2")


def test_two_are_compared(run_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "both.html"
    assert main(["report", str(run_json), "--compare", str(run_json), "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": [str(page)]}
    assert "Two memory reports compared" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read"),
        ("not json", "is no report in JSON"),
        ("[]", "is no report of VeloxQuant Studio"),
        ('{"report": {"format": "other"}}', "is no report of VeloxQuant Studio"),
        ('{"report": {"format": "veloxquant-memory-report", "version": 9}}', "a newer version of the app"),
        ('{"report": {"format": "veloxquant-memory-report", "version": 1}}', "is not complete"),
        ("[" * 100_000, "is no report in JSON"),
    ],
)
def test_a_file_that_is_no_report_is_one_sentence(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.json"
    if text is not None:
        file.write_text(text)
    page = tmp_path / "page.html"
    assert main(["report", str(file), "--html", str(page)]) == 1
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1 and not page.exists()


def test_a_vanished_folder_is_one_sentence_and_the_old_file_stays(
    run_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["report", str(run_json), "--html", str(tmp_path / "gone" / "a.html")]) == 1
    assert "its folder is no longer there" in capsys.readouterr().err
    page = tmp_path / "a.html"
    page.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("os.fsync", full)
    assert main(["report", str(run_json), "--html", str(page)]) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert page.read_text() == "old"


def test_a_comparison_has_no_table(
    run_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["report", str(run_json), "--compare", str(run_json), "--csv", str(tmp_path / "a.csv")]
    assert main(asked) == 1
    assert "A comparison has no table" in capsys.readouterr().err


def test_every_chart_is_a_drawing_that_stands_alone(
    run_json: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As where the library is installed alone.
    monkeypatch.setattr("veloxquant_mlx.report_command._has_studio", lambda: False)
    folder = tmp_path / "charts"
    assert main(["report", str(run_json), "--charts", str(folder)]) == 1
    assert "its folder is no longer there" in capsys.readouterr().err
    folder.mkdir()
    assert main(["report", str(run_json), "--charts", str(folder)]) == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "01-bytes-of-the-whole-cache-over-its-tokens.svg" and len(names) == 4
    for path in folder.iterdir():
        root = fromstring(path.read_text("utf-8"))
        used = {name for element in root.iter() if (name := element.get("class"))}
        style = root.find("{http://www.w3.org/2000/svg}style")
        assert style is not None and style.text is not None
        assert used and all(f".{name}{{" in style.text for name in used)
