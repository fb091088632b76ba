"""The conversation and the box to write in."""

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QTextOption
from pytestqt.qtbot import QtBot

from studio.ui.chat import Chat
from studio.ui.message import Reply, UserMessage
from tests.studio import synthetic
from veloxquant_mlx.steps import FinishedStep


@pytest.fixture
def chat(qtbot: QtBot) -> Chat:
    made = Chat()
    qtbot.addWidget(made)
    made.resize(600, 400)
    made.show()
    qtbot.waitExposed(made)
    made.set_ready("")
    made.send_requested.connect(made.ask)
    return made


def say(chat: Chat, text: str) -> None:
    chat.prompt.set_text(text)
    chat.prompt.submit()


def ended(text: str, reason: str = "stop") -> FinishedStep:
    return FinishedStep(reason, text, 10, 142, 0.2, 10.0, synthetic.snapshot(100))


def last(chat: Chat) -> Reply:
    reply = chat._messages[-1]
    assert isinstance(reply, Reply)
    return reply


def test_ctrl_return_sends_and_return_makes_a_line(qtbot: QtBot, chat: Chat) -> None:
    sent: list[str] = []
    chat.send_requested.connect(sent.append)
    editor = chat.prompt.editor
    qtbot.keyClicks(editor, "one")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.keyClicks(editor, "two")
    qtbot.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert sent == ["one\ntwo"]
    assert chat.prompt.text() == ""


def test_nothing_is_sent_without_words_or_a_model(chat: Chat) -> None:
    sent: list[str] = []
    chat.send_requested.connect(sent.append)
    say(chat, "  \n ")
    chat.set_ready("Load a model to write to it.")
    say(chat, "hello")
    assert sent == [] and chat.prompt.text() == "hello"
    assert not chat.prompt.button.isEnabled()


def test_the_box_grows_to_a_limit(qtbot: QtBot, chat: Chat) -> None:
    heights = []
    for lines in (1, 3, 8, 40):
        chat.prompt.set_text("\n".join(["line"] * lines))
        heights.append(chat.prompt.editor.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_a_reply_streams_and_ends_as_markdown(chat: Chat) -> None:
    say(chat, "Why?")
    chat.begin("reply")
    chat.prefill(512, 2048)
    reply = last(chat)
    assert reply.status.text() == "Reading the prompt 512 of 2,048 tokens"
    chat.append("Because **of")
    chat.append(" light**.")
    assert reply.view.toPlainText() == "Because **of light**."
    chat.finish(ended("Because **of light**."))
    assert reply.view.toPlainText() == "Because of light."
    assert reply.text() == "Because **of light**."
    assert reply.figures() == "142 tokens, 14.1 tok/s measured, the model ended its reply."


def test_the_button_stops_while_a_reply_runs(qtbot: QtBot, chat: Chat) -> None:
    say(chat, "Why?")
    chat.begin("reply")
    assert chat.prompt.button.accessibleName() == "Stop the reply"
    with qtbot.waitSignal(chat.stop_requested):
        chat.prompt.button.click()
    chat.finish(ended("", "stopped"))
    assert chat.prompt.button.accessibleName() == "Send the message"
    assert "stopped by you" in last(chat).figures()


def test_only_the_last_reply_can_be_made_again(qtbot: QtBot, chat: Chat) -> None:
    for text in ("one", "two"):
        say(chat, text)
        chat.begin("reply")
        chat.finish(ended(text))
    replies = [m for m in chat._messages if isinstance(m, Reply)]
    assert [r.regenerate_button.isHidden() for r in replies] == [True, False]
    with qtbot.waitSignal(chat.regenerate_requested):
        replies[1].regenerate_button.click()
    chat.begin("regenerate")
    chat.append("three")
    assert [m.text() for m in chat._messages if isinstance(m, Reply)] == ["one", "three"]


def test_a_failure_without_words_gives_the_message_back(chat: Chat) -> None:
    say(chat, "too long")
    chat.begin("reply")
    chat.fail("The message is too long; shorten it.", "details")
    assert chat.is_empty() and chat.prompt.text() == "too long"
    assert chat.notice.sentence == "The message is too long; shorten it."
    say(chat, "short")
    assert chat.notice.sentence == ""


def test_a_failure_in_between_keeps_the_words(chat: Chat) -> None:
    say(chat, "hello")
    chat.begin("reply")
    chat.append("Half a ")
    chat.fail("Out of memory; choose a smaller setting.")
    assert last(chat).text() == "Half a " and last(chat).notice.sentence.startswith("Out of memory")
    assert chat.prompt.text() == ""


def test_a_failed_second_answer_keeps_the_question(chat: Chat) -> None:
    say(chat, "hello")
    chat.begin("reply")
    chat.finish(ended("one"))
    chat.begin("regenerate")
    chat.fail("Out of memory; choose a smaller setting.")
    assert not chat.is_empty() and chat.prompt.text() == ""
    assert chat.can_regenerate()


def test_cancelled_before_the_first_word(chat: Chat) -> None:
    say(chat, "hello")
    chat.begin("reply")
    chat.cancel()
    assert chat.is_empty() and chat.prompt.text() == "hello"


def test_hostile_streaming_is_survived(chat: Chat) -> None:
    say(chat, "x" * 20_000 + " word" * 40_000)
    chat.begin("reply")
    for part in ("<script>", "\ud83d", "\u202e", "y" * 300_000, "\n" * 50, "![x](file:///etc/passwd)"):
        chat.append(part)
    view = last(chat).view
    assert "<script>" in view.toPlainText()
    assert max(len(line) for line in view.toPlainText().split("\n")) <= 9000
    chat.finish(ended(last(chat).text()))
    user = chat._messages[0]
    assert isinstance(user, UserMessage)
    assert user.view.width() < 600


def test_links_are_words(chat: Chat) -> None:
    say(chat, "hello")
    chat.begin("reply")
    chat.finish(ended("[click](file:///etc/passwd)"))
    flags = last(chat).view.textInteractionFlags()
    assert not flags & Qt.TextInteractionFlag.LinksAccessibleByMouse
    assert not flags & Qt.TextInteractionFlag.LinksAccessibleByKeyboard


def test_it_follows_the_end_only_while_the_person_is_there(qtbot: QtBot, chat: Chat) -> None:
    say(chat, "hello")
    chat.begin("reply")
    bar = chat.area.verticalScrollBar()
    chat.append("line\n" * 100)
    qtbot.waitUntil(lambda: bar.maximum() > 500 and bar.value() == bar.maximum())
    before = bar.maximum()
    bar.setValue(100)
    chat.append("line\n" * 100)
    qtbot.waitUntil(lambda: bar.maximum() > before)
    assert bar.value() == 100
    bar.setValue(bar.maximum())
    chat.append("line\n" * 10)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())


def test_the_empty_page_says_what_to_do(qtbot: QtBot, chat: Chat) -> None:
    chat.empty.show_no_model("Get the starter model, 93 MB")
    assert chat.empty.action.isVisible()
    with qtbot.waitSignal(chat.empty.action_chosen):
        chat.empty.action.click()
    chat.empty.show_model("SmolLM2")
    assert not chat.empty.action.isVisible()
    chat._use_example("What is the capital of France?")
    assert chat.prompt.text() == "What is the capital of France?"


def test_a_reply_stopped_before_its_first_word(chat: Chat) -> None:
    say(chat, "A long text")
    chat.begin("reply")
    chat.prefill(256, 3000)
    chat.finish(FinishedStep("stopped", "", 256, 0, 1.0, 0.0, synthetic.snapshot(256)))
    assert last(chat).figures() == "Stopped by you, before the first word."
    assert last(chat).copy_button.isHidden()
    assert not last(chat).regenerate_button.isHidden()


def test_a_pasted_word_without_end_is_wrapped_anywhere(chat: Chat) -> None:
    """Qt's other way to wrap takes time that grows with the square of such a word."""
    editor, mime = chat.prompt.editor, QMimeData()
    words, anywhere = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere, QTextOption.WrapMode.WrapAnywhere
    mime.setText("some words " * 1000)
    editor.insertFromMimeData(mime)
    assert editor.wordWrapMode() == words
    mime.setText("a" * 20_000)
    editor.insertFromMimeData(mime)
    assert editor.wordWrapMode() == anywhere
    editor.clear()
    assert editor.wordWrapMode() == words
    chat.prompt.set_text("a" * 20_000)
    assert editor.wordWrapMode() == anywhere
