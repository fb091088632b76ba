"""The window with an engine that is played by hand."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox
from pytestqt.qtbot import QtBot

from studio.ui import standing_row
from studio.ui import window as window_module
from studio.ui.message import Reply
from studio.ui.pace import LONGEST_MS, SOON_MS
from studio.ui.theme import Scheme, apply_theme
from studio.ui.window import MainWindow
from tests.studio.ui.conftest import METHODS
from tests.studio.ui.fake_cache import FakeConfig
from tests.studio.ui.fake_engine import STARTER, STARTING, FakeEngine
from veloxquant_mlx.config import SlotShape


def say(window: MainWindow, engine: FakeEngine, text: str = "Why?") -> None:
    window.chat.prompt.set_text(text)
    window.chat.prompt.submit()
    engine.started.emit("reply")


def reply(window: MainWindow) -> Reply:
    found = window.chat.shown()[-1]
    assert isinstance(found, Reply)
    return found


def test_no_heavy_import_before_the_first_paint() -> None:
    code = (
        "import sys; from PySide6.QtWidgets import QApplication; app = QApplication([])\n"
        "from studio.ui.theme import apply_theme; apply_theme(app)\n"
        "from studio.ui.window import MainWindow\n"
        "from tests.studio.ui.fake_engine import FakeEngine\n"
        "sys.modules.pop('numpy', None)\n"
        "MainWindow(FakeEngine())\n"
        "print([m for m in ('mlx', 'mlx_lm', 'transformers', 'pyqtgraph') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_setting_is_applied_at_once(window: MainWindow, engine: FakeEngine) -> None:
    assert not window.chat.prompt.button.isEnabled()
    engine.play_ready(METHODS)
    assert engine.calls == [("configure", FakeConfig.preset("Small"))]
    assert window.top.cache_chip.whole_text() == "Fake Small"


def test_the_starter_is_fetched_from_the_middle(window: MainWindow, engine: FakeEngine) -> None:
    engine.play_ready(METHODS)
    engine.models_found.emit([])
    window.chat.empty.action.click()
    assert engine.names()[-1] == "fetch_starter"
    engine.progress.emit(0.5, "Fetching 46 of 93 MB")
    assert window.status.state.text() == "Fetching 46 of 93 MB"
    assert window.chat.empty.lead.text() == "Fetching 46 of 93 MB"
    window.models.progress.cancel.click()
    assert engine.names()[-1] == "stop"
    engine.busy, engine.state = False, "idle"
    engine.cancelled.emit("models")
    assert window.chat.empty.action.isVisible()


def test_loading_enables_writing(loaded: MainWindow) -> None:
    assert loaded.top.model_chip.whole_text() == STARTER.name
    assert loaded.status.model.text() == "SmolLM2-135M-Instruct, CPU float32"
    assert loaded.status.tokens.text() == "8,192 tokens of context"
    loaded.chat.prompt.set_text("hello")
    assert loaded.chat.prompt.button.isEnabled()
    assert loaded.cache.figures.plan.text() == "All 30 slots compressed."


def test_a_reply_from_prompt_to_figures(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    request = engine.calls[-1][1]
    assert (engine.names()[-1], request.kind, request.turns) == ("answer", "reply", (("user", "Why?"),))
    assert loaded.timer.isActive()
    engine.play_prefill(512, 1000)
    loaded.tick()
    assert reply(loaded).status.text() == "Reading the prompt 512 of 1,000 tokens"
    engine.tokens = 1000
    engine.play_text("Because", 3)
    loaded.tick()
    assert reply(loaded).body.plain() == "Because"
    engine.play_finished("Because.")
    assert reply(loaded).body.plain() == "Because."
    assert loaded.status.speed.text() == "14.1 tok/s"
    assert loaded.status.tokens.text() == "1,003 of 8,192 tokens"
    assert "resident" in loaded.status.memory.text() and "in 16 bits" in loaded.status.memory.text()
    assert len(loaded.charts.history) == 4
    loaded.tick()
    assert not loaded.timer.isActive()


@pytest.mark.parametrize("end", ["finished", "cancelled", "failed", "closed"])
def test_cursors_stand_still_while_a_reply_is_written(
    loaded: MainWindow, engine: FakeEngine, end: str
) -> None:
    desktop = QApplication.cursorFlashTime()
    assert desktop > 0
    say(loaded, engine)
    engine.play_text("Be")
    loaded.tick()
    assert QApplication.cursorFlashTime() == 0
    if end == "finished":
        engine.play_finished("Because.")
    elif end == "cancelled":
        engine.play_cancelled()
    elif end == "failed":
        engine.play_failed("chat", "It broke.")
    else:
        loaded.close()
    if end != "closed":
        loaded.tick()
    assert QApplication.cursorFlashTime() == desktop


def test_the_first_words_do_not_wait_for_what_the_prompt_cost(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_prefill(512, 1000)
    loaded.tick()
    loaded.timer.setInterval(LONGEST_MS)
    engine.state_changed.emit("generating")
    assert loaded.timer.interval() == SOON_MS
    engine.play_finished("")
    loaded.tick()
    engine.state_changed.emit("generating")
    assert not loaded.timer.isActive(), "nobody waits"


def test_a_new_line_is_laid_out_before_it_is_painted(
    loaded: MainWindow, engine: FakeEngine, qtbot: QtBot
) -> None:
    say(loaded, engine)
    engine.play_text("First line.\n\n", 3)
    loaded.tick()
    qtbot.waitUntil(lambda: reply(loaded).body.isVisible())
    high = reply(loaded).height()
    engine.play_text("Second line.", 3)
    loaded.tick()
    assert reply(loaded).height() > high
    assert reply(loaded).rect().contains(reply(loaded).body.geometry())


@pytest.mark.parametrize("cancelled", [True, False])
def test_the_charts_show_the_last_token_of_a_reply_that_broke(
    loaded: MainWindow, engine: FakeEngine, cancelled: bool
) -> None:
    loaded.charts.load()
    say(loaded, engine)
    for _ in range(4):
        engine.play_text("Be", 20)
        loaded.tick()
    if cancelled:
        engine.play_cancelled()
    else:
        engine.play_failed("chat", "It broke.")
    assert loaded.charts.panel.memory.tip.tokens == engine.tokens


def test_the_end_may_come_by_signal_alone(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_text("Be")
    step = engine.play_finished("Because.")
    assert reply(loaded).text() == "Because."
    engine.finished.emit(step)
    assert reply(loaded).text() == "Because."


def talked(window: MainWindow, engine: FakeEngine, tokens: int = 900) -> None:
    """A finished reply: there is a conversation to read again."""
    say(window, engine)
    engine.play_prefill(400, 500)
    engine.tokens = tokens - 1
    engine.play_text("Because.")
    engine.play_finished("Because.")
    window.tick()


def configured(engine: FakeEngine) -> list[object]:
    return [call[1] for call in engine.calls if call[0] == "configure"]


def choose(window: MainWindow, config: FakeConfig) -> None:
    """The person lets go of a control."""
    window.cache.set_config(config)
    window.cache._settle()


def test_a_setting_is_let_go_and_the_conversation_read_again(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    old = loaded.charts.history
    rows, marks = len(old), old.turn_marks
    choose(loaded, FakeConfig(fake_bits=7))
    assert configured(engine)[-1] == FakeConfig(fake_bits=7)
    loaded.chat.prompt.set_text("Next")
    assert not loaded.chat.prompt.button.isEnabled(), "messages wait until it is read"
    engine.play_reread(256)
    loaded.tick()
    assert loaded.cache.row.words.text() == (
        "Reading the conversation again through this cache: 256 of 900 tokens."
    )
    assert loaded.cache.row.bar.value() == round(256 / 0.9)
    assert len(loaded.charts.history) == 1, "the charts follow the new cache"
    engine.play_reread()
    assert loaded.top.cache_chip.whole_text() == "Fake Custom"
    assert loaded.cache.row.words.text() == standing_row.IN_USE
    assert loaded.chat.prompt.button.isEnabled()
    assert len(loaded.charts.history) == 2 and loaded.charts.history.turn_marks == marks
    assert len(old) == rows
    assert [m.text() for m in loaded.chat.shown() if isinstance(m, Reply)] == ["Because."]
    loaded.tick()
    assert not loaded.timer.isActive()
    loaded.cache.presets.add("Mine", FakeConfig(fake_bits=7))
    loaded.cache.presets_changed()
    assert loaded.top.cache_chip.whole_text() == loaded.status.cache.text() == "Fake Mine"


def test_reading_again_is_cancelled_from_the_panel(
    qtbot: QtBot, loaded: MainWindow, engine: FakeEngine
) -> None:
    talked(loaded, engine)
    history, snapshot = loaded.charts.history, loaded.flow.snapshot
    choose(loaded, FakeConfig(fake_bits=7))
    engine.play_reread(256)
    loaded.tick()
    qtbot.mouseClick(loaded.cache.row.cancel_button, Qt.MouseButton.LeftButton)
    assert engine.names()[-1] == "stop_applying"
    engine.busy, engine.state = False, "idle"
    engine.cancelled.emit("cache")
    assert loaded.charts.history is history and loaded.flow.snapshot == snapshot
    assert loaded.cache.row.words.text().startswith("Not in use: Fake Small goes on.")
    assert loaded.cache.config() == FakeConfig(fake_bits=7), "the controls stay"
    assert loaded.top.cache_chip.whole_text() == "Fake Small"
    qtbot.mouseClick(loaded.cache.row.apply_button, Qt.MouseButton.LeftButton)
    assert configured(engine)[-1] == FakeConfig(fake_bits=7)


def test_a_setting_that_fails_leaves_the_old_one(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    history = loaded.charts.history
    choose(loaded, FakeConfig(fake_bits=7))
    engine.play_reread(256)
    engine.play_failed("cache", "Heads of 80 channels cannot be split; choose another.")
    assert loaded.cache.notice.sentence == "Heads of 80 channels cannot be split; choose another."
    assert loaded.charts.history is history and not loaded.flow.active
    assert loaded.cache.row.words.text().startswith("Not in use: Fake Small goes on.")


def test_during_a_reply_a_setting_waits_and_the_newest_wins(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_text("Because")
    loaded.tick()
    count = len(configured(engine))
    choose(loaded, FakeConfig(fake_bits=6))
    choose(loaded, FakeConfig(fake_bits=7))
    assert len(configured(engine)) == count
    assert loaded.cache.row.words.text() == standing_row.QUEUED
    engine.play_finished("Because.")
    assert configured(engine)[count:] == [FakeConfig(fake_bits=7)]
    engine.play_reread()
    assert loaded.cache.row.words.text() == standing_row.IN_USE


def test_a_queued_setting_can_be_dropped(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_text("Because")
    choose(loaded, FakeConfig(fake_bits=6))
    qtbot.mouseClick(loaded.cache.row.cancel_button, Qt.MouseButton.LeftButton)
    assert "stop" not in engine.names(), "the reply goes on"
    count = len(configured(engine))
    engine.play_finished("Because.")
    assert len(configured(engine)) == count


def test_a_new_setting_replaces_the_one_being_read(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    history = loaded.charts.history
    choose(loaded, FakeConfig(fake_bits=6))
    engine.play_reread(256)
    choose(loaded, FakeConfig(fake_bits=7))
    assert engine.names()[-1] == "stop_applying", "the first is given up"
    engine.cancelled.emit("cache")
    assert configured(engine)[-2:] == [FakeConfig(fake_bits=6), FakeConfig(fake_bits=7)]
    assert loaded.charts.history is history
    engine.play_reread()
    assert loaded.cache.row.words.text() == standing_row.IN_USE


def test_a_new_chat_while_reading_again_keeps_the_setting(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    choose(loaded, FakeConfig(fake_bits=6))
    engine.play_reread(256)
    loaded.new_chat()
    engine.busy, engine.state = False, "idle"
    engine.cancelled.emit("cache")
    assert configured(engine)[-1] == FakeConfig(fake_bits=6)
    assert loaded.cache.row.words.text() == standing_row.SET
    assert loaded.chat.is_empty() and not loaded.flow.active and len(loaded.charts.history) == 0
    talked(loaded, engine)
    assert reply(loaded).text() == "Because."


def test_the_ghost_moves_with_the_hand_and_goes_with_it(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine, 900)
    areas = loaded.charts.panel.memory._areas
    assert areas.ghost is None
    loaded.cache.set_config(FakeConfig(fake_bits=7))
    ghost = areas.ghost
    shape = SlotShape(3, 64, 64)
    assert ghost[-1].tolist() == [900, 30 * FakeConfig(fake_bits=7).predict(900, shape).total]
    for tokens, taken in ghost:
        assert taken == 30 * FakeConfig(fake_bits=7).predict(int(tokens), shape).total
    loaded.cache.set_config(FakeConfig(fake_bits=8))
    assert areas.ghost[-1, 1] > ghost[-1, 1]
    loaded.cache.set_config(FakeConfig.preset("Small"))
    assert areas.ghost is None


def test_a_new_chat_during_a_reply_drops_its_last_steps(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_text("Be")
    loaded.tick()
    loaded.new_chat()
    assert loaded.chat.is_empty() and engine.names()[-1] == "new_chat"
    say(loaded, engine, "Other?")
    engine.play_text("late")
    engine.play_finished("Because late", "stopped")
    assert reply(loaded).text() == ""
    engine.busy = True
    engine.play_text("Other.")
    loaded.tick()
    assert reply(loaded).text() == "Other."


@pytest.mark.parametrize("where", ["models", "chat", "cache", "export"])
def test_failures_are_said_where_the_person_acts(loaded: MainWindow, engine: FakeEngine, where: str) -> None:
    if where == "chat":
        say(loaded, engine)
    engine.play_failed(where, "It went wrong; do this.")
    place = {
        "models": loaded.models.notice, "chat": loaded.chat.notice, "cache": loaded.cache.notice,
        "export": loaded.chat.notice,
    }[where]  # fmt: skip
    assert place.sentence == "It went wrong; do this."
    assert loaded.chat.prompt.text() == ("Why?" if where == "chat" else "")


def test_starting_looks_for_models(window: MainWindow, engine: FakeEngine) -> None:
    window.start()
    assert engine.names() == STARTING
    for path, command in (("starter", "fetch_starter"), ("/m", "load"), ("/m/a.GGUF", "import_gguf")):
        window.opening.open_path(path)
        assert engine.names()[-1] == command
    engine.state_changed.emit("idle")
    assert window.status.state.text() == "Ready"


def test_unloading_goes_back_to_the_start(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_finished("x")
    loaded.models.unload_button.click()
    assert engine.names()[-1] == "unload"
    assert loaded.models.progress.words.text() == "Unloading the model"
    # Nothing of it could be called off.
    assert loaded.models.progress.isVisible() and not loaded.models.progress.cancel.isVisible()
    assert not loaded.chat.prompt.button.isEnabled()
    engine.unloaded.emit()
    assert loaded.status.model.text() == "No model loaded"
    # What was said stays on the page; it can be gone on with through another model.
    assert reply(loaded).text() == "x" and not loaded.chat.can_regenerate()
    loaded.new_chat()
    assert loaded.chat.empty.action.text() == f"Load {STARTER.name}"


def test_keys(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    keys = {a.shortcut().toString() for a in loaded.actions()}
    assert {"Ctrl+N", "Ctrl+R", "Ctrl+O", "Ctrl+E", "Esc"} <= keys
    say(loaded, engine)
    with qtbot.waitActive(loaded):
        loaded.activateWindow()
    qtbot.keyClick(loaded.chat.prompt.editor, Qt.Key.Key_Escape)
    assert engine.names()[-1] == "stop"


def test_every_control_has_a_name(loaded: MainWindow) -> None:
    for kind in (QAbstractButton, QComboBox):
        for control in loaded.findChildren(kind):
            if control.isHidden():
                continue
            named = control.accessibleName() or control.toolTip()
            assert named, (type(control).__name__, control.objectName(), control.parent())


@pytest.mark.parametrize("size", [(900, 600), (1280, 800), (2560, 1440)])
def test_nothing_is_cut_off(
    qtbot: QtBot, loaded: MainWindow, engine: FakeEngine, size: tuple[int, int]
) -> None:
    loaded.resize(*size)
    say(loaded, engine)
    engine.tokens = 500
    engine.play_text("word " * 50)
    engine.play_finished("word " * 50)
    loaded.models.show_error("A sentence that is long enough to be wrapped into three lines or so.", "x")
    qtbot.waitUntil(lambda: (loaded.width(), loaded.height()) == size)
    edge = loaded.rect()
    for panel in (loaded.models, loaded.chat.prompt, loaded.cache.row, loaded.charts, loaded.status):
        corner = panel.mapTo(loaded, panel.rect().bottomRight())
        assert edge.contains(corner), panel


def test_another_scheme_reaches_everything(qapp, loaded: MainWindow, engine: FakeEngine) -> None:  # type: ignore[no-untyped-def]
    say(loaded, engine)
    engine.play_finished("`code` and words")
    seen: list[Scheme] = []
    loaded.charts.panel.set_scheme = seen.append
    apply_theme(qapp, Scheme.Light, 1.0)
    qapp.processEvents()
    assert seen and seen[-1] == Scheme.Light


def test_closing_ends_the_engine(window: MainWindow, engine: FakeEngine) -> None:
    window.close()
    assert engine.names()[-1] == "close"


def test_closing_says_why_it_lasts_and_closes_once(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(lasting: Callable[[], None]) -> None:
        engine.calls.append(("close",))
        lasting()
        engine.saving.emit(True)
        loaded.close()

    monkeypatch.setattr(engine, "close", close)
    loaded.close()
    assert engine.names().count("close") == 1 and not loaded.isVisible()
    assert "window closes as soon as" in loaded.chat.notice.sentence
    assert loaded.status.state.text() == "Saving the cache of the chat"


def test_a_cache_on_its_way_to_disk_is_told_in_place_of_the_state(
    loaded: MainWindow, engine: FakeEngine
) -> None:
    engine.saving.emit(True)
    loaded.tick()
    assert loaded.status.state.text() == "Saving the cache of the chat"
    engine.saving.emit(False)
    assert loaded.status.state.text() == "Ready"


def test_a_dropped_folder_is_loaded(loaded: MainWindow, engine: FakeEngine, tmp_path) -> None:  # type: ignore[no-untyped-def]
    no_keys, left, copy = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton, Qt.DropAction.CopyAction
    for path, command in ((tmp_path, "load"), (tmp_path / "x.gguf", "import_gguf"), (tmp_path / "x", "")):
        mime = QMimeData()
        mime.setUrls([QUrl.fromLocalFile(str(path))])
        engine.busy, before = False, len(engine.calls)
        enter = QDragEnterEvent(QPoint(1, 1), copy, mime, left, no_keys)
        QApplication.sendEvent(loaded, enter)
        assert enter.isAccepted() == bool(command)
        QApplication.sendEvent(loaded, QDropEvent(QPointF(1, 1), copy, mime, left, no_keys))
        assert engine.calls[before:] == ([(command, str(path))] if command else [])


def test_the_keyboard_stays_with_the_message(loaded: MainWindow, engine: FakeEngine) -> None:
    """A button that is disabled by its own click would hand the focus to whatever comes next."""
    say(loaded, engine)
    loaded.chat.prompt.button.setFocus()
    loaded.chat.prompt.button.click()
    engine.play_finished("x", "stopped")
    assert loaded.focusWidget() is loaded.chat.prompt.editor
    loaded.top.new_button.setFocus()
    loaded.top.new_button.click()
    assert loaded.focusWidget() is loaded.chat.prompt.editor


def test_nothing_is_sent_while_another_model_comes(loaded: MainWindow, engine: FakeEngine) -> None:
    loaded.opening.load("/models/qwen")
    loaded.chat.prompt.set_text("hello")
    assert not loaded.chat.prompt.button.isEnabled()
    engine.play_failed("models", "It can't be used; choose another.")
    assert loaded.chat.prompt.button.isEnabled()


def test_the_charts_say_how_many_tokens_stay_exact(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_module, "waiting_words", lambda config, shape: f"{config.label} waits")
    said: list[str] = []
    loaded.charts.panel.set_waiting = said.append
    say(loaded, engine)
    assert said == ["Fake waits"]


def test_the_plan_goes_with_the_model(loaded: MainWindow, engine: FakeEngine) -> None:
    plans: list[object] = []
    loaded.charts.panel.set_plan = plans.append
    engine.unloaded.emit()
    assert plans == [None]
