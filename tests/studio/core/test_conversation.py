"""The tree of messages: versions, the shown path, taking back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.core.conversation import Attachment, Conversation, Message


def message(id: int, parent: int | None, text: str = "") -> Message:
    return Message(id, parent, "user" if id % 2 else "assistant", text or f"m{id}")


def ids(conversation: Conversation) -> list[int]:
    return [m.id for m in conversation.path()]


@pytest.fixture
def talk() -> Conversation:
    """1 - 2 - 3 - 4, and below 2 also 5 - 6."""
    return Conversation([message(i, p) for i, p in ((1, None), (2, 1), (3, 2), (4, 3), (5, 2), (6, 5))])


def test_nothing_was_said_yet() -> None:
    empty = Conversation()
    assert (empty.path(), empty.leaf, len(empty)) == ([], None, 0)


def test_the_newest_path_is_shown_unless_another_was_left_open(talk: Conversation) -> None:
    assert ids(talk) == [1, 2, 5, 6]
    assert ids(Conversation((talk[i] for i in (1, 2, 3, 4, 5, 6)), leaf=4)) == [1, 2, 3, 4]
    assert ids(Conversation((talk[i] for i in (1, 2, 3, 4, 5, 6)), leaf=99)) == [1, 2, 5, 6]


def test_versions_and_what_was_shown_below_them(talk: Conversation) -> None:
    assert talk.siblings(5) == talk.siblings(3) == [3, 5]
    assert talk.siblings(1) == [1]
    talk.choose(3)
    assert ids(talk) == [1, 2, 3, 4]
    talk.add(message(8, 3))
    talk.choose(5)
    talk.choose(3)
    assert ids(talk) == [1, 2, 3, 8]


def test_an_edit_of_the_first_message_is_its_sibling(talk: Conversation) -> None:
    talk.add(message(7, None))
    assert ids(talk) == [7] and talk.siblings(7) == [1, 7]
    talk.choose(1)
    assert ids(talk) == [1, 2, 5, 6]


def test_a_message_needs_its_parent(talk: Conversation) -> None:
    with pytest.raises(KeyError):
        talk.add(message(9, 77))
    assert 9 not in talk and ids(talk) == [1, 2, 5, 6]


def test_taking_back_shows_the_version_before(talk: Conversation) -> None:
    talk.add(message(8, 5))
    talk.remove(8)
    assert ids(talk) == [1, 2, 5, 6]
    with pytest.raises(ValueError, match="has answers"):
        talk.remove(5)
    talk.remove(6)
    assert ids(talk) == [1, 2, 5]
    talk.remove(5)
    assert ids(talk) == [1, 2, 3, 4]
    only = Conversation([message(1, None)])
    only.remove(1)
    assert only.path() == [] and len(only) == 0


def test_a_growing_reply_changes_in_place(talk: Conversation) -> None:
    assert talk.change(6, text="more", ended="stop").text == "more"
    assert talk.path()[-1].ended == "stop"


def test_files_come_before_the_words_fenced_beyond_their_own_fences() -> None:
    made = Message(1, None, "user", "What is this?", (Attachment("a.md", "x\n````\ny\n````\n"),))
    assert made.content == "a.md:\n`````\nx\n````\ny\n````\n`````\n\nWhat is this?"


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=30))
def test_the_path_is_always_one_line_from_the_first_to_a_last_message(steps: list[tuple[int, bool]]) -> None:
    talk = Conversation()
    for number, (at, choosing) in enumerate(steps, 1):
        known = [i for i in range(1, number) if i in talk]
        parent = known[at % len(known)] if known and at else None
        if choosing and known:
            talk.choose(known[at % len(known)])
        else:
            talk.add(message(number, parent))
        path = talk.path()
        assert [m.parent for m in path] == [None, *[m.id for m in path[:-1]]][: len(path)]
        assert path[-1].id == talk.leaf
        assert all(m.id in talk.siblings(m.id) for m in path)
