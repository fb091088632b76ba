"""Chats in the window: what is said, kept, found again, and what becomes of a reply that ends badly."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFileDialog, QLineEdit
from pytestqt.qtbot import QtBot

from studio.core import database
from studio.core.messages import StoreError
from studio.core.store import Store
from studio.ui.message import Reply, UserMessage
from studio.ui.window import MainWindow
from tests.studio.ui.fake_engine import FakeEngine


def say(window: MainWindow, engine: FakeEngine, text: str = "Why?") -> None:
    window.chat.prompt.set_text(text)
    window.chat.prompt.submit()
    engine.started.emit("reply")


def talked(window: MainWindow, engine: FakeEngine, text: str = "Why?", reply: str = "Because.") -> None:
    say(window, engine, text)
    engine.play_text(reply)
    engine.play_finished(reply)
    window.tick()


def page(window: MainWindow) -> list[str]:
    return [shown.text() for shown in window.chat.shown()]


def titles(window: MainWindow) -> list[str]:
    return [row.title for row in window.chats.model.rows]


def last(window: MainWindow) -> Reply:
    found = window.chat.shown()[-1]
    assert isinstance(found, Reply)
    return found


def kept(window: MainWindow) -> list[tuple[str, str | None]]:
    """Text and end of the path as another instance reads it."""
    other = Store(window.talk.store.path)
    (row, *_) = other.chats()
    path = [(message.text, message.ended) for message in other.conversation(row.id).path()]
    other.close()
    return path


def row_place(window: MainWindow, row: int) -> QPoint:
    return window.chats.list.visualRect(window.chats.model.index(row)).center()


def test_what_is_said_is_kept_at_once_and_listed(loaded: MainWindow, engine: FakeEngine) -> None:
    engine.tokens = 1200
    say(loaded, engine, "Why is the sky blue?")
    assert titles(loaded) == ["Why is the sky blue?"]
    with Store(loaded.talk.store.path)._connection as other:
        texts = other.execute("SELECT text FROM messages ORDER BY id").fetchall()
    assert texts == [("Why is the sky blue?",), ("",)]
    engine.play_finished("Because.")
    assert kept(loaded) == [("Why is the sky blue?", None), ("Because.", "stop")]
    model = loaded.chats.model
    said = model.data(model.index(0), Qt.ItemDataRole.ToolTipRole)
    assert said == "Why is the sky blue?\n1,200 tokens, today"


def test_a_chat_is_opened_with_a_click_where_it_was_left(
    qtbot: QtBot, loaded: MainWindow, engine: FakeEngine
) -> None:
    talked(loaded, engine, "First question", "words\n\n" * 200)
    bar = loaded.chat.area.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 1000)
    bar.setValue(500)
    loaded.top.new_button.click()
    assert loaded.chat.is_empty() and engine.names()[-1] == "new_chat"
    talked(loaded, engine, "Second question")
    assert titles(loaded) == ["Second question", "First question"]
    qtbot.mouseClick(loaded.chats.list.viewport(), Qt.MouseButton.LeftButton, pos=row_place(loaded, 1))
    assert page(loaded)[0] == "First question"
    qtbot.waitUntil(lambda: bar.maximum() > 1000 and abs(bar.value() - 500) < 3)
    say(loaded, engine, "More?")
    assert [role for role, _ in engine.calls[-1][1].turns] == ["user", "assistant", "user"]


def test_everything_is_there_after_a_restart(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    last(loaded).regenerate_button.click()
    engine.play_finished("Since.")
    last(loaded).versions.back.click()
    assert page(loaded) == ["Why?", "Because."]
    loaded.below_prompt.settings.system.setPlainText("Be brief.")
    loaded.below_prompt.settings._tell_system()
    loaded.below_prompt.settings.form.control("temperature").set_value(0.7)  # type: ignore[union-attr]
    loaded.below_prompt.settings.form._moved("temperature")
    loaded.close()
    again = MainWindow(FakeEngine())
    qtbot.addWidget(again)
    assert titles(again) == ["Why?"]
    again.chats._open(0)
    assert page(again) == ["Why?", "Because."] and last(again).versions.label.text() == "1 / 2"
    assert (again.talk.system, again.talk.sampling.temperature) == ("Be brief.", 0.7)
    assert "system prompt, temperature 0.7" in again.below_prompt.button.text()
    again.close()


def test_regenerating_and_editing_keep_every_version(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    last(loaded).regenerate_button.click()
    assert engine.calls[-1][1].kind == "regenerate" and engine.calls[-1][1].turns == (("user", "Why?"),)
    engine.play_finished("Since.")
    user = loaded.chat.shown()[0]
    assert isinstance(user, UserMessage)
    user.edit_button.click()
    loaded.chat.prompt.set_text("How?")
    loaded.chat.prompt.submit()
    assert engine.calls[-1][1].turns == (("user", "How?"),)
    engine.play_finished("So.")
    assert page(loaded) == ["How?", "So."]
    loaded.chat.shown()[0].versions.back.click()
    assert page(loaded) == ["Why?", "Since."]
    last(loaded).versions.back.click()
    assert page(loaded) == ["Why?", "Because."]


def test_a_reply_goes_on(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_finished("Because of", "length")
    last(loaded).continue_button.click()
    request = engine.calls[-1][1]
    assert (request.kind, request.turns) == ("continue", (("user", "Why?"), ("assistant", "Because of")))
    engine.play_text(" light.")
    engine.play_finished(" light.")
    assert page(loaded) == ["Why?", "Because of light."]
    assert kept(loaded)[-1] == ("Because of light.", "stop")


def test_a_failure_without_words_gives_the_message_back(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine, "too long")
    engine.play_failed("chat", "The message is too long; shorten it.")
    assert loaded.chat.is_empty() and loaded.chat.prompt.text() == "too long"
    assert loaded.chat.notice.sentence == "The message is too long; shorten it."
    assert titles(loaded) == []
    talked(loaded, engine, "short")
    assert loaded.chat.notice.sentence == "" and titles(loaded) == ["short"]


def test_a_failure_in_between_keeps_the_words(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine)
    engine.play_text("Half a ")
    loaded.tick()
    engine.play_failed("chat", "Out of memory; choose a smaller setting.")
    assert page(loaded) == ["Why?", "Half a "]
    assert last(loaded).notice.sentence.startswith("Out of memory")
    assert kept(loaded)[-1] == ("Half a ", "failed") and loaded.chat.prompt.text() == ""


def test_a_failed_second_answer_shows_the_first_again(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    loaded.regenerate()
    engine.play_failed("chat", "Out of memory; choose a smaller setting.")
    assert page(loaded) == ["Why?", "Because."] and loaded.chat.prompt.text() == ""
    assert loaded.chat.can_regenerate() and last(loaded).versions.isHidden()


def test_cancelled_before_the_first_word(loaded: MainWindow, engine: FakeEngine) -> None:
    say(loaded, engine, "hello")
    engine.play_cancelled()
    assert loaded.chat.is_empty() and loaded.chat.prompt.text() == "hello"


def test_another_chat_during_a_reply(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine, "First")
    loaded.new_chat()
    say(loaded, engine, "Second")
    engine.play_text("so f")
    loaded.tick()
    loaded.conversations.open(loaded.chats.model.rows[1].id)  # type: ignore[union-attr]
    assert page(loaded) == ["First", "Because."]
    engine.play_finished("so far", "stopped")
    assert page(loaded) == ["First", "Because."] and not loaded.chat.is_replying()
    loaded.conversations.open(next(r.id for r in loaded.talk.store.chats() if r.title == "Second"))
    assert page(loaded) == ["Second", "so far"]
    assert "stopped by you" in last(loaded).figures().lower()


def test_searching_and_going_to_what_was_found(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine, "Name a bird", "An albatross is large.")
    loaded.regenerate()
    engine.play_finished("A wren.")
    loaded.new_chat()
    talked(loaded, engine, "Name a river")
    qtbot.keyClicks(loaded.chats.search, "albatr")
    qtbot.waitUntil(lambda: titles(loaded) == ["Name a bird"])
    loaded.chats._open(0)
    assert page(loaded) == ["Name a bird", "An albatross is large."]
    loaded.chats.search.setText("zebra")
    qtbot.waitUntil(lambda: titles(loaded) == [])
    assert loaded.chats.nothing.text() == "No chat has all these words."
    loaded.chats.search.clear()
    qtbot.waitUntil(lambda: len(titles(loaded)) == 2)


def test_renaming_where_it_stands(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    loaded.chats.list.setFocus()
    loaded.chats.list.edit(loaded.chats.list.currentIndex())
    editor = loaded.chats.list.findChild(QLineEdit)
    assert editor is not None and editor.text() == "Why?"
    editor.selectAll()
    qtbot.keyClicks(editor, "The sky")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: titles(loaded) == ["The sky"])


def test_the_engine_knows_the_chat_and_where_caches_are_kept(loaded: MainWindow, engine: FakeEngine) -> None:
    loaded.start()
    path = loaded.talk.store.path
    assert ("keep_caches", path, 2_000_000_000) in engine.calls
    talked(loaded, engine)
    assert loaded.talk.row is not None
    request = engine.calls[-1][1]
    assert (request.chat, request.journal) == (loaded.talk.row.id, path)
    engine.noted.emit("The disk is full.")
    assert loaded.chat.notice.sentence == "The disk is full."


def test_what_was_deleted_is_gone_before_the_engine_is(loaded: MainWindow, engine: FakeEngine) -> None:
    """Its last act is to remove the files of chats that are in no row any more."""
    talked(loaded, engine)
    loaded.conversations._delete(loaded.talk.store.chats()[0].id)
    left: list[int] = []

    def close(lasting: Callable[[], None]) -> None:
        do = loaded.talk.store._connection
        left.extend(do.execute("SELECT count(*) FROM chats").fetchone())

    engine.close = close  # type: ignore[method-assign]
    loaded.close()
    assert left == [0]


def test_delete_and_undo(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine, "One")
    loaded.new_chat()
    talked(loaded, engine, "Two")
    loaded.chats.list.setFocus()
    qtbot.keyClick(loaded.chats.list, Qt.Key.Key_Delete)
    assert titles(loaded) == ["One"] and loaded.chat.is_empty()
    assert loaded.chats._undo_words.text() == "Deleted: Two"
    loaded.chats._undone()
    assert titles(loaded) == ["Two", "One"] and page(loaded) == ["Two", "Because."]
    qtbot.keyClick(loaded.chats.list, Qt.Key.Key_Delete)
    path = loaded.talk.store.path
    loaded.close()
    other = Store(path)
    assert [row.title for row in other.chats()] == ["One"]
    assert other._connection.execute("SELECT count(*) FROM chats").fetchone() == (1,)
    other.close()


@pytest.mark.parametrize(("name", "kind"), [("c.md", "Markdown (*.md)"), ("c", "JSON, all (*.json)")])
def test_a_chat_is_exported(
    loaded: MainWindow,
    engine: FakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
) -> None:
    talked(loaded, engine)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / name), kind))
    loaded.chats._with_selected(loaded.chats.export_requested)
    (written,) = tmp_path.iterdir()
    assert written.suffix == (".md" if "md" in name else ".json")
    assert "Because." in written.read_text("utf-8")
    assert "Chat saved to" in loaded.chat.notice.sentence


def test_a_second_window_is_heard_of(qtbot: QtBot, loaded: MainWindow, engine: FakeEngine) -> None:
    other = MainWindow(FakeEngine())
    qtbot.addWidget(other)
    talked(loaded, engine)
    assert titles(other) == []
    other.conversations.look_elsewhere()
    assert titles(other) == ["Why?"]
    other.close()


def test_a_file_that_fails_is_said_once_and_the_talk_goes_on(
    loaded: MainWindow, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    talked(loaded, engine)
    real = loaded.talk.store.add

    def failing(*arguments: object) -> object:
        if loaded.talk.store.keeps:
            raise StoreError("The file of your chats could not be used for saving: disk is full.")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loaded.talk.store, "add", failing)
    talked(loaded, engine, "More?", "Yes.")
    assert page(loaded) == ["Why?", "Because.", "More?", "Yes."]
    assert "disk is full. Until the next start nothing you write is kept." in loaded.chat.notice.sentence
    assert engine.calls[-1][1].journal is None
    loaded.new_chat()
    loaded.conversations.open(loaded.talk.store.chats()[0].id)
    assert page(loaded) == ["Why?", "Because.", "More?", "Yes."]


def test_a_newer_file_is_said_at_the_start(qtbot: QtBot, home: Path) -> None:
    store = Store()
    store._connection.execute(f"PRAGMA user_version = {database.VERSION + 1}")
    store.close()
    window = MainWindow(FakeEngine())
    qtbot.addWidget(window)
    assert "newer version" in window.chat.notice.sentence
    window.close()


def test_the_oldest_messages_left_out_are_said(loaded: MainWindow, engine: FakeEngine) -> None:
    talked(loaded, engine)
    engine.dropped.emit(2)
    assert loaded.chat.notice.sentence == (
        "The context is full: the 2 oldest messages are no longer read by the model."
    )


def test_the_gauge_warns_in_time(loaded: MainWindow, engine: FakeEngine) -> None:
    gauge = loaded.below_prompt.gauge
    assert gauge.isHidden()
    engine.tokens = 1000
    talked(loaded, engine)
    assert gauge.label.text() == "1,001 of 8,192 tokens of context"
    engine.tokens = 7000
    talked(loaded, engine)
    assert gauge.label.text() == "7,001 of 8,192 tokens: the reply stops there"


def test_tokens_of_a_file_are_counted_by_the_engine(
    loaded: MainWindow, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("one two three")
    loaded.chat.prompt.attach([str(tmp_path / "notes.txt")])
    assert engine.calls[-1] == ("count", "one two three")
    (file,) = loaded.chat.prompt.files()
    engine.counted.emit(file, 5)
    assert "5 tokens counted" in loaded.chat.prompt._files[0].words.text()
    loaded.chat.prompt.editor.setPlainText("What is this?")
    loaded.chat.prompt.submit()
    assert engine.calls[-1][1].turns == (("user", "notes.txt:\n```\none two three\n```\n\nWhat is this?"),)
