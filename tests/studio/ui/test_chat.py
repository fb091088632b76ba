"""The conversation's page and the box to write in."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QTextOption
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from studio.core.conversation import Attachment, Conversation, Figures, Message, Role
from studio.ui import markdown
from studio.ui.blocks import CodeBlock, Prose, Thinking
from studio.ui.chat import AT_ONCE, COLUMN, Chat
from studio.ui.message import Reply, UserMessage
from studio.ui.theme import Scheme, apply_theme


class Page(Chat):
    """A conversation whose messages are kept in a tree, as the window keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = Conversation()
        self.send_requested.connect(self.ask)

    def ask(self, text: str, files: tuple[Attachment, ...] = ()) -> None:
        self._put("user", text, files)

    def answer(self, kind: str = "reply") -> None:
        """A reply begins; where one ends the path, it is another version of that one."""
        last = self.tree.path()[-1]
        if last.role == "assistant":
            self.tree.choose(last.id)
            self.tree.leaf = last.parent
        self._put("assistant", "")
        self.begin(kind)

    def end(self, text: str, reason: str = "stop", figures: Figures | None = None) -> None:
        """The running reply ends."""
        figures = figures or Figures(reply_tokens=142, tokens_per_second=14.1)
        id = self.tree.path()[-1].id
        self.finish(self.tree.change(id, text=text, ended=reason, figures=figures))

    def _put(self, role: Role, text: str, files: tuple[Attachment, ...] = ()) -> None:
        self.tree.add(Message(len(self.tree) + 1, self.tree.leaf, role, text, files))
        self.show_path(self.tree.path(), self.tree.siblings)


@pytest.fixture
def chat(qtbot: QtBot) -> Page:
    made = Page()
    qtbot.addWidget(made)
    made.resize(600, 400)
    made.show()
    qtbot.waitExposed(made)
    made.set_ready("")
    return made


def say(chat: Page, text: str) -> None:
    chat.prompt.set_text(text)
    chat.prompt.submit()


def last(chat: Page) -> Reply:
    reply = chat.shown()[-1]
    assert isinstance(reply, Reply)
    return reply


def replies(chat: Page) -> list[Reply]:
    return [shown for shown in chat.shown() if isinstance(shown, Reply)]


def test_ctrl_return_sends_and_return_makes_a_line(qtbot: QtBot, chat: Page) -> None:
    sent: list[str] = []
    chat.send_requested.connect(lambda text, _: sent.append(text))
    editor = chat.prompt.editor
    qtbot.keyClicks(editor, "one")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.keyClicks(editor, "two")
    qtbot.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert sent == ["one\ntwo"]
    assert chat.prompt.text() == ""


def test_nothing_is_sent_without_words_or_a_model(chat: Page) -> None:
    sent: list[str] = []
    chat.send_requested.connect(lambda text, _: sent.append(text))
    say(chat, "  \n ")
    chat.set_ready("Load a model to write to it.")
    say(chat, "hello")
    assert sent == [] and chat.prompt.text() == "hello"
    assert not chat.prompt.button.isEnabled()


def test_the_box_grows_to_a_limit(qtbot: QtBot, chat: Page) -> None:
    heights = []
    for lines in (1, 3, 8, 40):
        chat.prompt.set_text("\n".join(["line"] * lines))
        heights.append(chat.prompt.editor.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_a_reply_streams_as_markdown(chat: Page) -> None:
    say(chat, "Why?")
    chat.answer()
    chat.prefill(512, 2048)
    reply = last(chat)
    assert reply.status.text() == "Reading the prompt 512 of 2,048 tokens"
    chat.append("Because **of")
    chat.append(" light**.")
    chat.end("Because **of light**.")
    assert reply.body.plain() == "Because of light."
    assert reply.text() == "Because **of light**."
    assert reply.figures() == "142 tokens, 14.1 tok/s measured, the model ended its reply."


def test_the_button_stops_while_a_reply_runs(qtbot: QtBot, chat: Page) -> None:
    say(chat, "Why?")
    chat.answer()
    assert chat.prompt.button.accessibleName() == "Stop the reply"
    with qtbot.waitSignal(chat.stop_requested):
        chat.prompt.button.click()
    chat.end("", "stopped")
    assert chat.prompt.button.accessibleName() == "Send the message"
    assert "stopped by you" in last(chat).figures().lower()


def test_only_the_last_reply_can_be_made_again(qtbot: QtBot, chat: Page) -> None:
    for text in ("one", "two"):
        say(chat, text)
        chat.answer()
        chat.end(text)
    assert [reply.regenerate_button.isHidden() for reply in replies(chat)] == [True, False]
    with qtbot.waitSignal(chat.regenerate_requested):
        last(chat).regenerate_button.click()
    chat.answer("regenerate")
    chat.append("three")
    assert [reply.text() for reply in replies(chat)] == ["one", "three"]


def test_versions_are_counted_and_changed(qtbot: QtBot, chat: Page) -> None:
    say(chat, "Why?")
    for text in ("one", "two", "three"):
        chat.answer()
        assert not last(chat).versions.on.isEnabled() and not last(chat).versions.back.isEnabled()
        chat.end(text)
    assert last(chat).versions.label.text() == "3 / 3"
    assert not last(chat).versions.on.isEnabled()
    with qtbot.waitSignal(chat.version_chosen) as chosen:
        last(chat).versions.back.click()
    chat.tree.choose(chosen.args[0])
    chat.show_path(chat.tree.path(), chat.tree.siblings)
    assert (last(chat).text(), last(chat).versions.label.text()) == ("two", "2 / 3")
    user = chat.shown()[0]
    assert user.versions.isHidden()


@pytest.mark.parametrize(("reason", "goes_on"), [("length", True), ("stopped", True), ("stop", False)])
def test_a_reply_that_was_cut_can_go_on(chat: Page, reason: str, goes_on: bool) -> None:
    say(chat, "Why?")
    chat.answer()
    chat.end("Because", reason)
    assert last(chat).continue_button.isHidden() is not goes_on


def test_a_reply_that_goes_on_grows_where_it_stands(chat: Page) -> None:
    say(chat, "Why?")
    chat.answer()
    chat.end("Because *of", "length")
    reply = last(chat)
    chat.begin("continue")
    assert not reply.status.isHidden() and reply.body.plain()
    chat.append(" light*.")
    assert reply.text() == "Because *of light*."
    chat.end("Because *of light*.")
    assert reply.body.plain() == "Because of light." and last(chat) is reply


def test_an_edit_is_another_version(qtbot: QtBot, chat: Page) -> None:
    say(chat, "Why?")
    chat.answer()
    chat.end("Because.")
    user = chat.shown()[0]
    assert isinstance(user, UserMessage)
    user.edit_button.click()
    assert chat.prompt.text() == "Why?" and chat.prompt._banner.isVisible()
    chat.stop_editing()
    assert chat.prompt.text() == "" and not chat.prompt._banner.isVisible()
    user.edit_button.click()
    chat.prompt.set_text("How?")
    with qtbot.waitSignal(chat.edit_requested) as edited:
        chat.prompt.submit()
    assert edited.args == [user.message.id, "How?", ()]
    assert not chat.prompt._banner.isVisible()


def test_hostile_streaming_is_survived(chat: Page) -> None:
    say(chat, "x" * 20_000 + " word" * 40_000)
    chat.answer()
    for part in ("<script>", "\ud83d", "\u202e", "y" * 300_000, "\n" * 50, "![x](file:///etc/passwd)"):
        chat.append(part)
    chat.end(last(chat).text())
    plain = last(chat).body.plain()
    assert "<script>" in plain and "picture not loaded: file:///etc/passwd" in plain
    assert max(len(line) for line in plain.split("\n")) <= markdown.LONGEST_LINE
    user = chat.shown()[0]
    assert isinstance(user, UserMessage)
    assert user.view.width() < 600


def test_code_has_a_copy_button(chat: Page) -> None:
    say(chat, "hello")
    chat.answer()
    chat.append("Look:\n```python\nx = 1\n")
    block = last(chat).body.pieces[1]
    assert isinstance(block, CodeBlock) and block.view.toPlainText() == "x = 1"
    chat.append("y = 2\n```\nDone.")
    chat.end("Look:\n```python\nx = 1\ny = 2\n```\nDone.")
    assert [type(piece) for piece in last(chat).body.pieces] == [Prose, CodeBlock, Prose]
    block._copy.click()
    assert QGuiApplication.clipboard().text() == "x = 1\ny = 2"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Words", ["Words"]),
        ("```\nx = 1\n```\nWords\n\n```\ny = 2\n```\nMore", ["x = 1", "Words", "y = 2", "More"]),
        ("```\nx = 1\n", ["x = 1"]),
    ],
)
def test_the_view_of_the_first_words_is_there_before_they_are(
    qtbot: QtBot, chat: Page, text: str, seen: list[str]
) -> None:
    say(chat, "hello")
    chat.answer()
    body = last(chat).body
    (made,) = body.findChildren(Prose)
    assert not made.isVisible() and body.pieces == []
    chat.append(text)
    qtbot.waitUntil(body.isVisible)
    assert made.isVisible() == ("ords" in text)
    chat.end(text)
    prose = [piece for piece in body.pieces if isinstance(piece, Prose)]
    assert prose[:1] == [made] * bool(prose)
    assert [view.toPlainText().strip() for view in body.views()] == seen
    # What no words came for is gone.
    qtbot.waitUntil(lambda: body.findChildren(Prose) == prose)


def test_thinking_is_folded_until_it_is_opened(chat: Page) -> None:
    say(chat, "hello")
    chat.answer()
    chat.append("<think>\none two\n")
    thinking = last(chat).body.pieces[0]
    assert isinstance(thinking, Thinking) and thinking.button.text() == "▸ Thinking, 2 words"
    chat.append("</think>\n\nYes.")
    assert thinking.button.text() == "▸ Thought in 2 words"
    assert thinking.view.toPlainText() == "" and last(chat).body.plain().strip() == "Yes."
    thinking.button.click()
    assert thinking.view.toPlainText() == "one two" and not thinking._box.isHidden()
    thinking.button.click()
    assert thinking._box.isHidden()


def test_a_link_opens_nothing_but_asks(qtbot: QtBot, chat: Page) -> None:
    say(chat, "hello")
    chat.answer()
    chat.end("[click](file:///etc/passwd)")
    prose = last(chat).body.pieces[0]
    assert isinstance(prose, Prose)
    assert not prose.textInteractionFlags() & Qt.TextInteractionFlag.LinksAccessibleByMouse
    place = prose.cursorRect(prose.cursorForPosition(QPoint(12, 8))).center()
    with qtbot.waitSignal(chat.link_clicked) as clicked:
        qtbot.mouseClick(prose.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert clicked.args == ["file:///etc/passwd"]
    prose.setFocus()
    with qtbot.waitSignal(chat.link_clicked) as typed:
        qtbot.keyClick(prose, Qt.Key.Key_Return)
    assert typed.args == ["file:///etc/passwd"]


def test_files_stand_above_the_words(qtbot: QtBot, chat: Page, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one two three")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00\x00")
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(tmp_path / name)) for name in ("notes.txt", "picture.png")])
    with qtbot.waitSignal(chat.prompt.attached) as attached:
        chat.prompt.editor.insertFromMimeData(mime)
    assert chat.notice.sentence == "picture.png is not a text file: attach one that holds plain text."
    (file,) = chat.prompt.files()
    assert attached.args == [file] and file.text == "one two three"
    shown = chat.prompt._files[0]
    assert shown.words.text() == "notes.txt, 13 characters"
    chat.prompt.set_tokens(file, 5)
    assert shown.words.text() == "notes.txt, 13 characters, 5 tokens counted"
    with qtbot.waitSignal(chat.send_requested) as sent:
        chat.prompt.submit()
    assert sent.args == ["", (file,)] and chat.prompt.files() == ()
    chat.prompt.attach([str(tmp_path / "notes.txt")])
    chat.prompt._files[0].remove.click()
    assert chat.prompt.files() == () and not chat.prompt.button.isEnabled()


def test_a_long_chat_puts_its_beginning_on_the_page_when_asked(qtbot: QtBot, chat: Page) -> None:
    for number in range(1, 3 * AT_ONCE):
        role: Role = "user" if number % 2 else "assistant"
        chat.tree.add(Message(number, number - 1 or None, role, f"message {number}", ended="stop"))
    chat.show_path(chat.tree.path(), chat.tree.siblings)
    assert len(chat.shown()) == AT_ONCE and chat._earlier.isVisible()
    chat._earlier.click()
    assert len(chat.shown()) == 2 * AT_ONCE
    assert [shown.message.id for shown in chat.shown()] == list(range(AT_ONCE, 3 * AT_ONCE))
    chat.go_to("3")
    assert chat.shown()[0].message.id == 1 and not chat._earlier.isVisible()
    top = chat.shown()[2]
    qtbot.waitUntil(lambda: abs(chat.area.verticalScrollBar().value() - top.y() + 16) < 3)


def test_the_page_comes_back_to_its_place(qtbot: QtBot, chat: Page) -> None:
    for number in range(1, 30):
        role: Role = "user" if number % 2 else "assistant"
        chat.tree.add(Message(number, number - 1 or None, role, "words\n\n" * 5, ended="stop"))
    chat.show_path(chat.tree.path(), chat.tree.siblings)
    bar = chat.area.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 1000 and bar.value() == bar.maximum())
    assert chat.place() == "end"
    bar.setValue(700)
    place = chat.place()
    chat.show_path([], chat.tree.siblings)
    chat.show_path(chat.tree.path(), chat.tree.siblings)
    chat.go_to(place)
    qtbot.waitUntil(lambda: bar.maximum() > 1000 and abs(bar.value() - 700) < 3)
    chat.go_to("end")
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())


def test_it_follows_the_end_only_while_the_person_is_there(qtbot: QtBot, chat: Page) -> None:
    say(chat, "hello")
    chat.answer()
    bar = chat.area.verticalScrollBar()
    chat.append("line\n\n" * 100)
    qtbot.waitUntil(lambda: bar.maximum() > 500 and bar.value() == bar.maximum())
    before = bar.maximum()
    bar.setValue(100)
    chat.append("line\n\n" * 100)
    qtbot.waitUntil(lambda: bar.maximum() > before)
    assert bar.value() == 100
    bar.setValue(bar.maximum())
    chat.append("line\n\n" * 10)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())


def test_the_empty_page_says_what_to_do(qtbot: QtBot, chat: Page) -> None:
    chat.empty.show_no_model("Get the starter model, 93 MB")
    assert chat.empty.action.isVisible()
    with qtbot.waitSignal(chat.empty.action_chosen):
        chat.empty.action.click()
    chat.empty.show_model("SmolLM2")
    assert not chat.empty.action.isVisible()
    chat._use_example("What is the capital of France?")
    assert chat.prompt.text() == "What is the capital of France?"


def test_a_reply_stopped_before_its_first_word(chat: Page) -> None:
    say(chat, "A long text")
    chat.answer()
    chat.prefill(256, 3000)
    chat.end("", "stopped", Figures(prompt_tokens=256))
    assert last(chat).figures() == "Stopped by you, before the first word."
    assert last(chat).copy_button.isHidden() and last(chat).continue_button.isHidden()
    assert not last(chat).regenerate_button.isHidden()


def test_a_pasted_word_without_end_is_wrapped_anywhere(chat: Page) -> None:
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


def test_in_a_wide_window_the_box_stands_below_the_messages(qtbot: QtBot, chat: Page) -> None:
    chat.resize(2000, 700)
    qtbot.waitUntil(lambda: chat.prompt.width() == COLUMN + 40)
    middle = chat.prompt.mapTo(chat, chat.prompt.rect().center()).x()
    assert abs(middle - chat.rect().center().x()) <= 1


def test_large_text_has_a_line_of_its_own_for_what_can_be_done(qtbot: QtBot, qapp: QApplication) -> None:
    apply_theme(qapp, Scheme.Dark, 2.0)
    page = Page()
    qtbot.addWidget(page)
    page.resize(600, 800)
    page.show()
    page.set_ready("")
    page.ask("Why?")
    page.answer()
    page.end("Because.", "stopped")
    reply = page.shown()[-1]
    assert isinstance(reply, Reply)
    qtbot.waitUntil(lambda: reply.copy_button.isVisible() and reply.width() > 300)
    words, button = reply._figures, reply.copy_button
    assert words.width() > 0.9 * reply.width()
    assert (
        button.mapTo(reply, button.rect().topLeft()).y() >= words.mapTo(reply, words.rect().bottomLeft()).y()
    )
