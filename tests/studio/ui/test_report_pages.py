"""A report on paper, and the program that draws it for the command line."""

import re
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from studio.core.report import write_report
from studio.ui.report_pages import pdf, print_reports, text_document
from tests.veloxquant_mlx.report.sample import FIDELITY, SEEN, hostile, sample
from veloxquant_mlx.__main__ import main
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.report.content import document


def pages(data: bytes) -> int:
    assert data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF")
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", data))


def test_the_words_and_charts_are_on_it(qtbot: QtBot) -> None:
    report = sample(fidelity=FIDELITY)
    text = text_document(document(report))
    said = text.toPlainText()
    for words in ("Memory report: SmolLM2-135M-Instruct", "180.0 tokens/s", "87.5 %", "Key bits"):
        assert words in said
    assert said.count("\ufffc") == 6
    assert f"{report['totals']['counted_bytes']['total']:,}" in said
    assert pages(pdf(document(report))) >= 4


def test_a_longer_report_has_more_pages(qtbot: QtBot) -> None:
    long = sample()
    long["transcript"] = [{"role": "user", "content": "word " * 20_000}]
    assert pages(pdf(document(long))) > pages(pdf(document(sample()))) + 10


def test_hostile_text_stays_text(qtbot: QtBot) -> None:
    text = text_document(document(hostile()))
    flat = " ".join(text.toPlainText().split())
    assert flat.count(SEEN) > 10
    assert pages(pdf(document(hostile()))) >= 4


@pytest.mark.parametrize("two", [False, True])
def test_the_command_line_draws_it(two: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, target = tmp_path / "run.json", tmp_path / "run.pdf"
    write_report(run, sample())
    asked = ["report", str(run), "--pdf", str(target), *(["--compare", str(run)] if two else [])]
    assert main(asked) == 0
    assert f"Written to {target}" in capsys.readouterr().out
    assert pages(target.read_bytes()) >= 2


def test_why_it_was_not_drawn_is_one_sentence(
    tmp_path: Path, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.json"
    write_report(run, sample())
    assert main(["report", str(run), "--pdf", str(tmp_path / "gone" / "run.pdf")]) == 1
    told = capsys.readouterr().err
    assert "its folder is no longer there" in told and told.count("\n") == 1
    with pytest.raises(VeloxQuantError, match="One report, or two"):
        print_reports([run])
