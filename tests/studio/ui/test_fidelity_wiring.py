"""What the engine compared, in the conversation: colours, details under the pointer, words, the setting."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from studio.core.store import Store
from studio.ui.charts.fidelity import NOT_COMPARED
from studio.ui.fidelity_wiring import NOTHING, OFF
from studio.ui.message import Reply
from studio.ui.token_fidelity import FAR, NEAR
from studio.ui.window import MainWindow
from tests.studio.ui.comparisons import comparison, reply
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import FakeEngine
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.fidelity import ReplayStep

PIECES = ("The", " **", "sky", "** is", " blue", ", and", "\n\n```py\nsea", " = 1", "\n```\n\ngreen")
TEXT = "".join(PIECES)
RANKS = (1, 1, 3, 1, 9, 1, 2, 1, 6)


@pytest.fixture
def replied(loaded: MainWindow, engine: FakeEngine) -> MainWindow:
    loaded.send("why?")
    engine.started.emit("reply")
    engine.tokens = 100
    engine.play_text(TEXT, 9)
    engine.play_finished(TEXT, new=9)
    return loaded


def last(window: MainWindow) -> Reply:
    shown = window.chat.shown()[-1]
    assert isinstance(shown, Reply)
    return shown


def compared(window: MainWindow, engine: FakeEngine, ranks: tuple[int, ...] = RANKS) -> None:
    message = last(window).message.id
    engine.compared.emit(comparison(FakeConfig(), reply(message, PIECES, ranks), errors=(0.1, None)))


def levels(window: MainWindow) -> list[tuple[str, int]]:
    return [pair for view in last(window).body.views() for pair in view.tints.levels()]


def test_the_engine_is_told_at_the_start_and_when_the_setting_changes(
    loaded: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    loaded.start()
    assert [call for call in engine.calls if call[0] == "compare"] == [("compare", True)]
    loaded.settings.use(replace(loaded.talk.settings, compare=False))
    assert engine.calls[-1] == ("compare", False)
    assert loaded.charts.panel.fidelity.empty == OFF
    assert loaded.talk.store.setting("settings")["compare"] is False


def test_tokens_that_the_uncompressed_cache_has_further_down_are_coloured(
    replied: MainWindow, engine: FakeEngine
) -> None:
    compared(replied, engine)
    assert levels(replied) == [("sky", NEAR), ("blue", FAR), ("sea", NEAR), ("green", FAR)]


def test_the_line_below_tells_mean_agreement_and_the_first_difference(
    replied: MainWindow, engine: FakeEngine
) -> None:
    line = last(replied).fidelity
    assert line.isHidden()
    compared(replied, engine)
    assert line.label.text() == (
        "SKVQ Documented against the uncompressed cache, measured over 9 tokens: KL 0.010 nats per token, "
        "same first choice 56%. At token 3 it would first have said “<2>”, not “sky”."
    )
    assert line.isVisible() and line.key.isVisible()
    compared(replied, engine, (1,) * 9)
    assert line.label.text().endswith("the same first choice at every one.")
    assert not line.key.isVisible()
    assert levels(replied) == []


def test_details_are_under_the_pointer(replied: MainWindow, engine: FakeEngine, qtbot: QtBot) -> None:
    compared(replied, engine)
    view = last(replied).body.views()[0]
    cursor = QTextCursor(view.document())
    cursor.setPosition(view.toPlainText().index("blue") + 2)
    where = view.cursorRect(cursor).center()
    QTest.mouseMove(view.viewport(), QPoint(where.x() + 1, where.y()))
    qtbot.waitUntil(lambda: "blue" in view.viewport().toolTip())
    tip = view.viewport().toolTip()
    for told in ("“ blue”", "KL 0.010 nats, measured", "choice 9, 25% likely", "first choice, 50% likely"):
        assert told in tip
    assert "prefers “&lt;4&gt;”, 62%" in tip, "what a model would say is never read as HTML"
    QTest.mouseMove(view.viewport(), QPoint(view.width() - 2, 2))
    qtbot.waitUntil(lambda: view.viewport().toolTip() == "")


def test_sampled_tokens_are_coloured_for_what_the_cache_changed_alone(
    replied: MainWindow, engine: FakeEngine
) -> None:
    message = last(replied).message.id
    own = [1, 1, 3, 1, 2, 1, 1, 1, 1]
    engine.compared.emit(comparison(FakeConfig(), reply(message, PIECES, RANKS, own_ranks=own)))
    assert levels(replied) == [("blue", FAR), ("sea", NEAR), ("green", FAR)]


def test_colours_come_again_with_the_chat(replied: MainWindow, engine: FakeEngine) -> None:
    compared(replied, engine)
    row = replied.talk.row
    assert row is not None
    replied.new_chat()
    assert replied.charts.panel.fidelity.empty
    replied.conversations.open(row.id)
    assert levels(replied) == [("sky", NEAR), ("blue", FAR), ("sea", NEAR), ("green", FAR)]


def test_comparisons_come_back_from_the_disk_with_the_setting_they_were_measured_under(
    replied: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    message = last(replied).message.id
    measured = KVCacheConfig("skvq", skvq_bits_key=4)
    shown = reply(message, PIECES, RANKS, kl=[0.0123456789] * 9, config=measured)
    engine.compared.emit(comparison(measured, shown, errors=(0.125, None)))
    row = replied.talk.row
    assert row is not None
    later = FakeEngine()
    again = MainWindow(later, Store(replied.talk.store.path))
    qtbot.addWidget(again)
    again.conversations.open(row.id)
    assert levels(again) == [], "which settings there are is not known yet"
    later.state = "idle"
    later.methods_ready.emit({"skvq": type(measured)})
    assert levels(again) == levels(replied) == [("sky", NEAR), ("blue", FAR), ("sea", NEAR), ("green", FAR)]
    assert last(again).fidelity.label.text().startswith("SKVQ Documented, key bits 4 against the ")
    again.charts.load()
    view = again.charts.panel.fidelity
    assert len(view.drawn[0]) == 9 and view.drawn_errors[0] == pytest.approx(12.5)
    record = again.fidelity.record()
    assert record is not None and record["kl_nats_per_token"]["mean"] == pytest.approx(0.0123457)
    again.new_chat()
    assert len(view.drawn[0]) == 0 and len(view.drawn_errors) == 0


def test_a_reply_that_goes_on_is_compared_in_parts(replied: MainWindow, engine: FakeEngine) -> None:
    compared(replied, engine)
    message = last(replied).message.id
    first = reply(message, PIECES, RANKS)
    more = reply(message, [" and", " on"], [1, 4], start=109, offset=len(TEXT))
    replied.conversations.talk.tree.change(message, text=TEXT + " and on")
    shown = last(replied)
    shown.finish(replied.conversations.talk.tree[message])
    engine.compared.emit(comparison(FakeConfig(), more))
    assert levels(replied)[-1] == ("on", NEAR)
    assert len(levels(replied)) == 5
    assert "over 11 tokens" in shown.fidelity.label.text()
    engine.compared.emit(comparison(FakeConfig(), first))
    assert "over 9 tokens" in shown.fidelity.label.text(), "made again: what followed it is gone"


def test_progress_is_said_in_the_view_and_the_status_bar(replied: MainWindow, engine: FakeEngine) -> None:
    replied.start()
    engine.comparing.emit(ReplayStep(64, 109))
    said = "Comparing with the uncompressed cache, 64 of 109 tokens read"
    assert replied.charts.panel.fidelity.empty == said
    assert replied.status.state.text() == said
    engine.comparing.emit(None)
    assert replied.status.state.text() == "Ready"
    assert replied.charts.panel.fidelity.empty == NOT_COMPARED


def test_the_uncompressed_cache_has_nothing_to_compare(loaded: MainWindow, engine: FakeEngine) -> None:
    loaded.start()
    engine.configured.emit(KVCacheConfig("plain"))
    assert loaded.charts.panel.fidelity.empty == NOTHING
