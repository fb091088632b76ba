"""A report on paper, and the program that draws it for the command line."""

import json
import re
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from PySide6.QtGui import QImage
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


def test_its_figures_can_be_searched_and_copied(qtbot: QtBot) -> None:
    data = pdf(document(sample()))
    known = re.findall(rb"begincmap.*?endcmap", data, flags=re.DOTALL)
    assert known and all(b"<0030>" in characters for characters in known), "a font without a nought"


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


def test_the_command_line_draws_every_chart_as_pixels_too(
    tmp_path: Path, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    run, folder = tmp_path / "run.json", tmp_path / "charts"
    write_report(run, sample(fidelity=FIDELITY))
    folder.mkdir()
    assert main(["report", str(run), "--charts", str(folder), "--json"]) == 0
    written = [Path(path) for path in json.loads(capsys.readouterr().out)["written"]]
    assert sorted(written) == sorted(folder.iterdir())
    drawn = [path for path in written if path.suffix == ".png"]
    assert len(drawn) == 6 and {path.stem for path in drawn} == {path.stem for path in written}
    for path in drawn:
        image = QImage(str(path))
        svg = fromstring(path.with_suffix(".svg").read_text("utf-8"))
        size = [2 * int(svg.get(side, 0)) for side in ("width", "height")]
        assert [image.width(), image.height()] == size
        colours = {image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}
        assert 0xFFFFFFFF in colours and len(colours) > 5, "something was drawn on white"


def test_why_it_was_not_drawn_is_one_sentence(
    tmp_path: Path, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.json"
    write_report(run, sample())
    assert main(["report", str(run), "--pdf", str(tmp_path / "gone" / "run.pdf")]) == 1
    told = capsys.readouterr().err
    assert "its folder is no longer there" in told and told.count("\n") == 1
    assert main(["report", str(run), "--pdf", str(tmp_path)]) == 1
    assert "is a folder: name a file in it" in capsys.readouterr().err
    with pytest.raises(VeloxQuantError, match="One report, or two"):
        print_reports([run])
