"""Through the window as a person goes: real clicks and keys, a real engine, a small model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from studio.ui.engine import Engine
from studio.ui.message import Reply
from studio.ui.window import MainWindow
from tests.studio.ui.worker import LONG, Gate
from veloxquant_mlx import live as live_module
from veloxquant_mlx.generation import generate
from veloxquant_mlx.steps import PrefillStep, Step, TokenStep


class Person:
    """Sits before a window. Nothing is called that a hand could not do."""

    def __init__(self, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
        self.qtbot, self._patch = qtbot, monkeypatch
        self._generate = live_module.generate
        self.start()

    def start(self) -> None:
        """Start the app, and wait until it knows what there is."""
        self.window = window = MainWindow(Engine())
        self.qtbot.addWidget(window)
        window.show()
        window.start()
        self.until(lambda: window.models.is_known and not window.engine.busy)

    def until(self, reached: Any) -> None:
        """Wait for something to be seen."""
        self.qtbot.waitUntil(reached, timeout=LONG)

    def click(self, widget: QWidget) -> None:
        """With the left button, once it can be seen and pressed."""
        self.until(lambda: widget.isVisible() and widget.isEnabled())
        self.qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)

    def say(self, text: str) -> None:
        """Write a message and send it from the keyboard."""
        editor = self.window.chat.prompt.editor
        self.qtbot.keyClicks(editor, text)
        self.qtbot.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)

    def wait_for_the_end(self) -> None:
        """Of whatever is being written."""
        self.until(lambda: not self.window.chat.is_replying() and not self.window.engine.busy)

    def hold(self, fits: Any) -> Gate:
        """Let the next reply stand still behind a step."""
        gate = Gate(self._generate, fits)
        self._patch.setattr(live_module, "generate", gate)
        return gate

    def page(self) -> list[str]:
        """What is to be read, message by message."""
        return [shown.text() for shown in self.window.chat.shown()]

    def reply(self) -> Reply:
        """The last one."""
        found = self.window.chat.shown()[-1]
        assert isinstance(found, Reply)
        return found


@pytest.fixture
def person(qtbot: QtBot, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    """At the first start; replies end after a few words, and the starter model is a small one."""

    def short(*arguments: Any, **words: Any) -> Iterator[Step]:
        return generate(*arguments, **words | {"max_tokens": 16})

    monkeypatch.setattr(live_module, "generate", short)
    monkeypatch.setattr("veloxquant_mlx.models.starter.starter_model", lambda _progress: folder)
    made = Person(qtbot, monkeypatch)
    yield made
    made.window.close()


def begun(person: Person) -> None:
    """The first start: one click leads to a model."""
    window = person.window
    assert not window.chat.prompt.button.isEnabled()
    person.click(window.chat.empty.action)
    person.until(lambda: window.info is not None and not window.engine.busy)


def test_stopping_while_the_prompt_is_read_and_sending_again_at_once(person: Person) -> None:
    begun(person)
    chat = person.window.chat
    gate = person.hold(lambda step: isinstance(step, PrefillStep))
    asked = " ".join(["one two three four five"] * 20)
    person.say(asked)
    person.until(gate.reached)
    person.until(lambda: person.window.engine.state == "prefill")
    person.click(chat.prompt.button)
    gate.open()
    person.until(lambda: not chat.is_replying())
    person.say("and now")
    person.wait_for_the_end()
    assert person.page()[0::2] == [asked, "and now"]
    assert person.page()[1] == "" and person.page()[3] != ""


def test_stopping_in_the_middle_of_a_reply_and_sending_again_at_once(person: Person, qtbot: QtBot) -> None:
    begun(person)
    gate = person.hold(lambda step: isinstance(step, TokenStep) and step.count == 3)
    person.say("why is the sky blue")
    person.until(gate.reached)
    person.until(lambda: person.window.engine.state == "generating")
    # Keys of the window are heard where it is the one in front.
    with qtbot.waitActive(person.window):
        person.window.activateWindow()
    qtbot.keyClick(person.window.chat.prompt.editor, Qt.Key.Key_Escape)
    gate.open()
    person.until(lambda: not person.window.chat.is_replying())
    stopped = person.reply()
    assert stopped.message.ended == "stopped" and stopped.message.figures.reply_tokens == 4
    person.say("go on then")
    person.wait_for_the_end()
    assert len(person.page()) == 4 and person.reply().message.ended == "length"


def test_another_answer_another_question_and_back(person: Person) -> None:
    begun(person)
    person.say("why")
    person.wait_for_the_end()
    first = person.page()
    person.click(person.reply().regenerate_button)
    person.wait_for_the_end()
    assert person.reply().versions.label.text() == "2 / 2"
    asked = person.window.chat.shown()[0]
    person.click(asked.edit_button)  # type: ignore[union-attr]
    person.window.chat.prompt.editor.selectAll()
    person.say("how")
    person.wait_for_the_end()
    assert person.page()[0] == "how" and person.window.chat.shown()[0].versions.label.text() == "2 / 2"
    person.click(person.window.chat.shown()[0].versions.back)
    person.click(person.reply().versions.back)
    assert person.page() == first


def test_closing_while_it_writes_and_finding_everything_again(
    person: Person, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(person)
    person.say("the first thing")
    person.wait_for_the_end()
    person.click(person.window.top.new_button)
    monkeypatch.setattr(live_module, "generate", generate)
    person.say("the second thing")
    person.until(lambda: bool(person.reply().text()))
    assert person.window.engine.state == "generating" and person.window.close()
    person.start()
    window = person.window
    assert [row.title for row in window.chats.model.rows] == ["the second thing", "the first thing"]
    for row, (words, ended) in enumerate((("the second thing", "stopped"), ("the first thing", "length"))):
        place = window.chats.list.visualRect(window.chats.model.index(row)).center()
        qtbot.mouseClick(window.chats.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
        asked, answer = person.page()
        assert asked == words and answer and person.reply().message.ended == ended
    # What was used last comes first; the chat goes on from its saved cache.
    models = window.models.list
    place = models.visualItemRect(models.item(0)).center()
    qtbot.mouseClick(models.viewport(), Qt.MouseButton.LeftButton, pos=place)
    person.click(window.models.load_button)
    person.until(lambda: window.info is not None and not window.engine.busy)
    person.say("more")
    person.wait_for_the_end()
    figures = person.reply().message.figures
    assert figures.kept_tokens and not figures.again_tokens
