"""Chats on disk: what is kept when, what comes back, what a search finds."""

import sqlite3

import pytest

from studio.core import database
from studio.core import store as store_module
from studio.core.conversation import Attachment, Figures
from studio.core.messages import INTERRUPTED, Journal, StoreError
from studio.core.store import Store, store_path, title_of

FIGURES = Figures(prompt_tokens=10, reply_tokens=3, tokens_per_second=14.1, context_tokens=13, model="m")


def talk(store: Store, *texts: str) -> int:
    """A chat of these messages, in turn the person's and the model's; its number."""
    chat = store.new_chat(texts[0]).id
    parent = None
    for number, text in enumerate(texts):
        made = store.add(chat, parent, "assistant" if number % 2 else "user", "" if number % 2 else text)
        if number % 2:
            store.finish(made.id, text, "stop", FIGURES)
        parent = made.id
    return chat


def test_a_chat_comes_back_as_it_was(store: Store) -> None:
    chat = store.new_chat("Why is the sky blue?", system="Be brief.", sampling='{"temperature": 1}')
    files = (Attachment("notes.txt", "a\nb"),)
    asked = store.add(chat.id, None, "user", "Why is the sky blue?", files)
    reply = store.add(chat.id, asked.id, "assistant", "")
    store.finish(reply.id, "Because.", "length", FIGURES)
    store.set_place(chat.id, "2:40")
    store.close()
    again = Store()
    (row,) = again.chats()
    assert (row.title, row.tokens, row.system, row.sampling) == (
        "Why is the sky blue?", 13, "Be brief.", '{"temperature": 1}'
    )  # fmt: skip
    assert again.chat(row.id).place == "2:40"
    path = again.conversation(row.id).path()
    assert path[0] == asked and path[0].files == files
    assert (path[1].text, path[1].ended, path[1].figures) == ("Because.", "length", FIGURES)
    again.close()


@pytest.mark.parametrize(
    "text", ["a\ud800b", "\udfff", "nul \x00 inside", "😀 \u202e日本", "\x1b[31m", "x" * 300_000]
)
def test_any_text_survives(store: Store, text: str) -> None:
    chat = store.new_chat(text)
    asked = store.add(chat.id, None, "user", text, (Attachment(text[:20], text),))
    reply = store.add(chat.id, asked.id, "assistant", "")
    journal = Journal(store.path, reply.id)
    journal.append(text)
    journal.close()
    shown = store.conversation(chat.id).path()
    assert [m.text for m in shown] == [text, text] and shown[0].files[0].text == text
    store.finish(reply.id, text, "stop", Figures())
    assert store.conversation(chat.id).path()[1].text == text
    store.delete(chat.id)
    assert store.purge() == [chat.id]


def test_a_growing_reply_is_on_disk_piece_by_piece(store: Store) -> None:
    chat = store.new_chat("q")
    asked = store.add(chat.id, None, "user", "q")
    reply = store.add(chat.id, asked.id, "assistant", "")
    journal = Journal(store.path, reply.id)
    for count, piece in enumerate(("Be", "cau", "", "se"), 1):
        journal.append(piece)
        with sqlite3.connect(store.path) as other:
            rows = other.execute("SELECT text FROM pieces ORDER BY id").fetchall()
        assert "".join(text for (text,) in rows) == "".join(("Be", "cau", "", "se")[:count])
    assert store.conversation(chat.id).path()[1].ended is None
    journal.finish("Because", "stop", FIGURES)
    journal.close()
    done = store.conversation(chat.id).path()[1]
    assert (done.text, done.ended) == ("Because", "stop")
    assert store._connection.execute("SELECT count(*) FROM pieces").fetchone() == (0,)


def test_a_reply_the_app_ended_with_is_closed_at_the_next_start_and_found(store: Store) -> None:
    chat = store.new_chat("q")
    asked = store.add(chat.id, None, "user", "q")
    reply = store.add(chat.id, asked.id, "assistant", "")
    journal = Journal(store.path, reply.id)
    journal.append("half of an ")
    journal.append("albatross")
    assert store.search("albatross") == []
    second = Store()
    read = second.conversation(chat.id).path()[1]
    assert (read.text, read.ended) == ("half of an albatross", INTERRUPTED)
    assert [hit.message for hit in second.search("albatross")] == [reply.id]
    # It was not dead after all, as when a second window opens: nothing is lost and nothing found twice.
    journal.append(" flies")
    assert second.conversation(chat.id).path()[1].text == "half of an albatross flies"
    journal.finish("half of an albatross flies", "stop", FIGURES)
    journal.close()
    assert second.conversation(chat.id).path()[1].text == "half of an albatross flies"
    assert [hit.message for hit in second.search("albatross flies")] == [reply.id]
    second.close()


def test_a_reply_goes_on(store: Store) -> None:
    chat = talk(store, "q", "one two")
    reply = store.conversation(chat).path()[1]
    journal = Journal(store.path, reply.id)
    journal.append(" three")
    assert store.conversation(chat).path()[1].text == "one two three"
    journal.finish(" three four", "stop", FIGURES)
    journal.close()
    assert store.conversation(chat).path()[1].text == "one two three four"
    assert [hit.message for hit in store.search("two three")] == [reply.id]


def test_taking_a_message_back(store: Store) -> None:
    chat = talk(store, "first", "reply", "second")
    path = store.conversation(chat).path()
    store.remove(path[2].id)
    assert store.conversation(chat).path() == path[:2]
    assert store.search("second") == []
    assert store.chat(chat).leaf == path[1].id


def test_the_list_goes_from_new_to_old_in_pages(store: Store) -> None:
    made = [store.new_chat(f"chat {number}").id for number in range(25)]
    first = store.chats(10)
    rest = store.chats(100, after=first[-1])
    assert [row.id for row in first + rest] == made[::-1]
    store.add(made[3], None, "user", "again")
    assert store.chats(1)[0].id == made[3]


def test_delete_undo_and_purge(store: Store) -> None:
    keep, gone = talk(store, "keep this", "yes"), talk(store, "lose this", "no")
    store.delete(gone)
    assert [row.id for row in store.chats()] == [keep]
    assert [hit.chat for hit in store.search("this")] == [keep]
    assert store.purge(older_than=60) == []
    store.restore(gone)
    assert len(store.chats()) == 2 and len(store.search("this")) == 2
    store.delete(gone)
    assert store.purge() == [gone]
    for table in ("chats", "messages"):
        column = "id" if table == "chats" else "chat"
        left = store._connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
        assert left == [(keep,)]
    with pytest.raises(StoreError, match="is gone"):
        store.chat(gone)
    assert store.search("lose") == []


def test_renaming_moves_what_the_search_finds(store: Store) -> None:
    chat = store.new_chat("Why is the sky blue?").id
    store.rename(chat, "  Rayleigh \n scattering ")
    assert store.chat(chat).title == "Rayleigh scattering"
    assert [hit.chat for hit in store.search("rayl")] == [chat]
    assert store.search("blue") == []
    store.rename(chat, "   ")
    assert store.chat(chat).title == "Rayleigh scattering"


def test_titles_are_cut_between_words() -> None:
    assert title_of("  Why\nis it? ") == "Why is it?"
    assert title_of("") == "New chat"
    long = title_of("word " * 40)
    assert long.endswith("word…") and len(long) <= store_module.TITLE
    assert len(title_of("x" * 400)) == store_module.TITLE


def test_the_search_wants_every_word_and_takes_the_last_unfinished(store: Store) -> None:
    sky = talk(store, "Why is the sky blue?", "Light is scattered in the atmosphere, Grüße.")
    talk(store, "Name a river", "The Nile")
    for query in ("sky", "SKY blu", "scattered atmos", "gruß", "GRÜ", "Gru", "blue?"):
        assert [hit.chat for hit in store.search(query)] == [sky], query
    for query in ("sky river", "ky", "", "  ", '"', "* OR", "sky NOT blue", "(", "\ud800"):
        assert sky not in [hit.chat for hit in store.search(query)], query
    (hit,) = store.search("scattered")
    assert hit.excerpt.startswith("Light is scattered in")


def test_scripts_without_spaces_are_found_in_the_middle(store: Store) -> None:
    chat = talk(store, "為什麼天空是藍色的？", "空は青い")
    for query in ("天空", "空", "藍色", "青い"):
        assert [hit.chat for hit in store.search(query)] == [chat], query
    assert store.search("空天") == []


def test_settings_come_back_and_a_broken_one_is_left_out(store: Store) -> None:
    assert store.setting("sampling") is None
    store.set_setting("sampling", {"temperature": 0.7})
    store.set_setting("sampling", {"temperature": 0.8})
    again = Store()
    assert again.setting("sampling") == {"temperature": 0.8}
    again._connection.execute("UPDATE settings SET value = '{broken'")
    assert again.setting("sampling") is None
    again.close()


def test_two_instances_lose_nothing(store: Store) -> None:
    other = Store()
    chat = talk(store, "q", "a")
    assert other.changed_elsewhere() and not other.changed_elsewhere()
    last = store.conversation(chat).path()[-1]
    for number in range(10):
        store.add(chat, last.id, "user", f"mine {number}")
        other.add(chat, last.id, "user", f"theirs {number}")
    both = store.conversation(chat)
    assert len(both) == 22 and len(both.siblings(both.path()[-1].id)) == 20
    assert len(other.search("mine")) == len(store.search("theirs")) == 1
    other.close()


def test_a_write_that_fails_is_one_sentence_and_changes_nothing(store: Store) -> None:
    chat = talk(store, "q", "a")
    with sqlite3.connect(store.path, isolation_level=None) as other:
        store._connection.execute("PRAGMA busy_timeout = 1")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"could not be used for saving the message: another program"):
            store.add(chat, None, "user", "more")
        other.execute("ROLLBACK")
    other.close()
    assert len(store.conversation(chat)) == 2
    store.add(chat, None, "user", "more")


def test_a_file_that_breaks_while_it_is_used_is_set_aside_at_the_next_start(store: Store) -> None:
    for number in range(40):
        talk(store, f"chat {number} " + "x" * 2000, "a")
    store.close()
    with sqlite3.connect(store.path) as other:
        (page,) = other.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'messages_by_chat'"
        ).fetchone()
    other.close()
    data = bytearray(store.path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    store.path.write_bytes(bytes(data))
    broken = Store()
    with pytest.raises(StoreError, match="start the app again to set it aside"):
        for row in range(1, 40):
            broken.conversation(row)
    broken.close()
    after = Store()
    assert after.keeps and "was damaged and is kept as" in after.notice
    assert after.chats() == [] and talk(after, "new", "start")
    after.close()
    assert store_path() == store.path


def test_version_is_the_number_of_steps() -> None:
    assert len(database.STEPS) == database.VERSION
