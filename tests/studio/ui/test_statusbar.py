"""The line at the bottom."""

from pytestqt.qtbot import QtBot

from studio.ui.statusbar import StatusBar
from tests.studio import synthetic


def test_it_says_what_runs_and_leaves_out_what_is_unknown(qtbot: QtBot) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    bar.show()
    assert bar.model.text() == "No model loaded"
    assert [line.text() for line in (bar.tokens, bar.speed, bar.memory)] == ["", "", ""]
    snapshot = synthetic.snapshot(3104)
    bar.set_model("SmolLM2, CPU float32")
    bar.set_numbers(snapshot, 8192, 14.06)
    bar.set_state("Generating")
    assert bar.tokens.text() == "3,104 of 8,192 tokens"
    assert bar.speed.text() == "14.1 tok/s"
    resident, reference = snapshot.resident_bytes / 1e6, snapshot.reference_bytes / 1e6
    assert bar.memory.text() == f"KV {resident:.1f} MB resident, {reference:.1f} MB in 16 bits"
    assert "measured" in bar.memory.toolTip() and "counted" in bar.memory.toolTip()
    bar.set_numbers(snapshot, 8192, None)
    assert bar.speed.text() == ""


def test_a_model_that_counts_no_tokens_is_not_said_to_hold_none(qtbot: QtBot) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    bar.set_numbers(synthetic.snapshot(0), 4096, None)
    assert bar.tokens.text() == "4,096 tokens of context"
