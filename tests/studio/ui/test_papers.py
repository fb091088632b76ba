"""Reports out of the window and into it again, and the plan one click away, with real clicks."""

import os
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from studio.core.report import write_report
from studio.ui import papers
from studio.ui.reading import ReadingWindow
from studio.ui.theme import Scheme, apply_theme
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import FakeEngine
from tests.veloxquant_mlx.report.sample import FIDELITY, SEEN, hostile, sample
from veloxquant_mlx.planning import Machine

LEFT = Qt.MouseButton.LeftButton


def shown(window: MainWindow) -> ReadingWindow:
    found = [child for child in window.findChildren(ReadingWindow) if child.isVisible()]
    assert len(found) == 1
    return found[0]


def offer(monkeypatch: pytest.MonkeyPatch, path: Path | str) -> None:
    """What the person picks in the system's dialogs."""
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_an_export_takes_everything_of_one_moment(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    loaded.send("Why?")
    engine.play_text("Because of", 5)
    loaded.tick()
    monkeypatch.setattr(papers, "ask_export", lambda parent, name: ("/tmp/r.html", True))
    qtbot.mouseClick(loaded.top.export_button, LEFT)
    name, path, with_transcript, taken = engine.calls[-1]
    assert (name, path, with_transcript) == ("export", "/tmp/r.html", True)
    assert taken.columns["tokens"].tolist() == [1, 2, 3, 4, 5]
    assert taken.snapshot.tokens == 5
    assert taken.said == (("user", "Why?"), ("assistant", "Because of"))
    assert taken.fidelity is None
    assert taken.slot_history["eras"][0]["slots"] == list(range(30))
    engine.play_text(" the air", 3)
    loaded.tick()
    assert len(taken.columns["tokens"]) == 5 and taken.snapshot.tokens == 5
    engine.exported.emit("/tmp/r.html")
    assert loaded.chat.notice.sentence == "Report saved to /tmp/r.html"
    monkeypatch.setattr(papers, "ask_export", lambda parent, name: None)
    loaded.actions_.export.trigger()
    assert engine.names().count("export") == 1


def test_a_report_is_opened_and_another_set_beside_it(
    loaded: MainWindow, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    write_report(file, sample(fidelity=FIDELITY))
    offer(monkeypatch, file)
    loaded.actions_.open_report.trigger()
    window = shown(loaded)
    said = window.page.document().toPlainText()
    assert "Memory report: SmolLM2-135M-Instruct" in said and "87.5 %" in said
    assert said.count("\ufffc") == 6
    qtbot.mouseClick(window.compare_button, LEFT)
    assert window.windowTitle() == "Two memory reports compared"
    assert "Both used the same settings." in window.page.document().toPlainText()
    qtbot.mouseClick(window.close_button, LEFT)
    qtbot.waitUntil(lambda: not loaded.findChildren(ReadingWindow))


def test_what_cannot_be_opened_is_said_where_the_person_is(
    loaded: MainWindow, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text("{}")
    offer(monkeypatch, odd)
    loaded.actions_.open_report.trigger()
    assert loaded.chat.notice.sentence.startswith("odd.json is no report")
    window = loaded.papers.show_report(sample())
    qtbot.mouseClick(window.compare_button, LEFT)
    assert window.notice.sentence.startswith("odd.json is no report")
    assert "Memory report" in window.windowTitle()
    offer(monkeypatch, "")
    qtbot.mouseClick(window.compare_button, LEFT)
    assert "Memory report" in window.windowTitle()


@pytest.mark.parametrize(("ending", "start"), [("html", "<!DOCTYPE"), ("pdf", "%PDF-"), ("md", "# Memory")])
def test_what_is_read_is_saved_with_a_click(
    loaded: MainWindow,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
    tmp_path: Path,
    ending: str,
    start: bytes,
) -> None:
    window = loaded.papers.show_report(sample())
    target = tmp_path / f"r.{ending}"
    offer(monkeypatch, target)
    qtbot.mouseClick(window.save_buttons[ending], LEFT)
    assert target.read_bytes().startswith(start.encode())
    assert window.notice.sentence == f"Saved to {target}"

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    before = target.read_bytes()
    monkeypatch.setattr("os.fsync", full)
    qtbot.mouseClick(window.save_buttons[ending], LEFT)
    assert "the disk is full" in window.notice.sentence
    assert target.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [target.name]


def test_hostile_text_is_shown_as_text(loaded: MainWindow, qtbot: QtBot) -> None:
    window = loaded.papers.show_report(hostile())
    flat = " ".join(window.page.document().toPlainText().split())
    assert flat.count(SEEN) > 10


def test_the_page_follows_the_colours(qapp, loaded: MainWindow, qtbot: QtBot) -> None:  # type: ignore[no-untyped-def]
    window = loaded.papers.show_report(sample())
    before = window.page.document()
    apply_theme(qapp, Scheme.Light, 1.0)
    qtbot.waitUntil(lambda: window.page.document() is not before)


def test_the_plan_is_one_click_away(loaded: MainWindow, engine: FakeEngine, qtbot: QtBot) -> None:
    engine.machine_told.emit(Machine(8_000_000_000, "physical memory", metal=False))
    assert loaded.models.plan_button.isEnabled()
    qtbot.mouseClick(loaded.models.plan_button, LEFT)
    window = shown(loaded)
    said = window.page.document().toPlainText()
    chosen = loaded.models.info(loaded.models.selected_path() or "")
    assert window.windowTitle() == f"Memory plan: {chosen.name}"
    assert "8,000.0 MB" in said and "physical memory" in said
    assert "fake:Small" in said and said.count("\ufffc") == 2
    # The chosen model is the loaded one: its weights were measured.
    assert "540.0 MB" in said and "measured" in said


def test_a_plan_before_anything_is_known_is_a_sentence(window: MainWindow) -> None:
    window.actions_.plan.trigger()
    assert window.chat.notice.sentence.startswith("Choose a model on the left first")
    assert not window.findChildren(ReadingWindow)
