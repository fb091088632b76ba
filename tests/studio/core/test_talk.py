"""The open chat without a screen: turns for the model, settings, what another version kept."""

import json
from pathlib import Path

import pytest

from studio.core.attach import AttachError, read_text_file
from studio.core.conversation import Attachment, Figures
from studio.core.settings import DROP, Settings, load, save
from studio.core.store import Store
from studio.core.talk import Talk
from studio.core.transcript import as_json, as_markdown, export_chat
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.sampling import Sampling


@pytest.fixture
def talk() -> Talk:
    return Talk(Store())


def answer(talk: Talk, text: str, ended: str = "stop") -> int:
    reply = talk.begin_reply()
    talk.end(reply.id, text, ended, Figures(context_tokens=20, model="Tiny"))
    return reply.id


def test_turns_are_what_the_model_reads(talk: Talk) -> None:
    talk.set_system("Be brief.")
    talk.say("Why?", [Attachment("a.txt", "x")])
    talk.begin_reply()
    assert talk.turns() == [("system", "Be brief."), ("user", "a.txt:\n```\nx\n```\n\nWhy?")]


def test_a_reply_that_goes_on_is_the_last_turn(talk: Talk) -> None:
    talk.say("Why?")
    answer(talk, "Because of", "length")
    talk.go_on()
    assert talk.turns() == [("user", "Why?"), ("assistant", "Because of")]


def test_another_answer_is_a_sibling_and_nothing_is_lost(talk: Talk) -> None:
    talk.say("Why?")
    first = answer(talk, "one")
    second = answer(talk, "two")
    assert talk.tree.siblings(first) == [first, second]
    talk.choose(first)
    assert talk.row is not None
    other = Talk(Store())
    other.open(talk.row.id)
    assert [message.text for message in other.tree.path()] == ["Why?", "one"]


def test_a_chat_whose_only_message_is_taken_back_is_gone(talk: Talk) -> None:
    said = talk.say("Why?")
    talk.take_back(said.id)
    assert talk.row is None and talk.store.chats() == []
    talk.say("Again")
    assert [row.title for row in talk.store.chats()] == ["Again"]


def test_a_chat_of_a_file_alone_is_named_after_it(talk: Talk) -> None:
    talk.say("", [Attachment("notes.txt", "x")])
    assert talk.row is not None and talk.row.title == "notes.txt"


def test_sampling_belongs_to_the_chat_and_to_the_next_new_one(talk: Talk) -> None:
    talk.say("Why?")
    warm = Sampling(temperature=0.7, seed=3)
    talk.set_sampling(warm)
    chat = talk.row
    talk.new()
    assert talk.sampling == warm
    talk.set_sampling(Sampling())
    assert chat is not None
    talk.open(chat.id)
    assert talk.sampling == warm


@pytest.mark.parametrize("kept", ['{"temperature": 9, "top_k": 5, "new": 1}', "[1]", "{broken", "null"])
def test_what_this_version_can_t_take_is_the_default(talk: Talk, kept: str) -> None:
    talk.say("Why?")
    assert talk.row is not None
    talk.store.set_sampling(talk.row.id, kept)
    talk.open(talk.row.id)
    assert talk.sampling == (Sampling(top_k=5) if "top_k" in kept else Sampling())


def test_settings_keep_what_only_another_version_knows() -> None:
    store = Store()
    store.set_setting("settings", {"at_limit": DROP, "colour": "red", "keep_awake": "maybe"})
    assert load(store, Settings) == Settings(at_limit=DROP)
    save(store, Settings(notify=False))
    assert store.setting("settings")["colour"] == "red"
    assert load(store, Settings) == Settings(notify=False)


def test_a_transcript_in_markdown_and_json(talk: Talk, tmp_path: Path) -> None:
    talk.set_system("Be brief.")
    talk.say("Why?", [Attachment("a.txt", "x")])
    answer(talk, "one")
    answer(talk, "two \ud800")
    assert talk.row is not None
    assert as_markdown(talk.row, talk.tree) == (
        "# Why?\n\n## System\n\nBe brief.\n\n## You\n\na.txt:\n```\nx\n```\n\nWhy?\n\n## Tiny\n\ntwo \ud800\n"
    )
    record = json.loads(as_json(talk.row, talk.tree))
    assert [message["text"] for message in record["messages"]] == ["Why?", "one", "two \ud800"]
    assert record["path"] == [record["messages"][0]["id"], record["messages"][2]["id"]]
    assert record["messages"][1]["figures"] == {"context_tokens": 20, "model": "Tiny"}
    for name in ("chat.md", "chat.json"):
        export_chat(tmp_path / name, talk.row, talk.tree)
    assert json.loads((tmp_path / "chat.json").read_text("utf-8")) == record
    with pytest.raises(VeloxQuantError, match="could not be written"):
        export_chat(tmp_path / "gone" / "chat.md", talk.row, talk.tree)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\r\ntwo\r", "one\ntwo\n"),
        ("Gr\u00fc\u00dfe \U0001f600".encode(), "Grüße 😀"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("wide".encode("utf-16"), "wide"),
        ("Gr\u00fc\u00dfe".encode("cp1252"), "Grüße"),
    ],
)
def test_text_files_in_their_encodings(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert read_text_file(tmp_path / "a.txt") == Attachment("a.txt", text)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not a text file"),
        (bytes(range(1, 32)) * 4 + b"\xff\xfe\x81", "is not a text file"),
        (b" \n ", "is empty"),
        (b"x" * 4_000_001, "has 4.0 MB"),
        (None, "can't be read"),
    ],
)
def test_files_that_can_t_be_attached(tmp_path: Path, data: bytes | None, reason: str) -> None:
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    with pytest.raises(AttachError, match=reason):
        read_text_file(tmp_path / "a")
    with pytest.raises(AttachError, match="is a folder"):
        read_text_file(tmp_path)
