"""From a conversation to tokens, with and without a chat template."""

from pathlib import Path

import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.load import load_model
from veloxquant_mlx.prompt import encode, system_manner


def tokenizer_of(folder: Path, **words: None) -> object:
    return load_model(tiny_folder(folder, **words)).tokenizer  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> object:
    return tokenizer_of(tmp_path_factory.mktemp("models") / "chat")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> object:
    return tokenizer_of(tmp_path_factory.mktemp("models") / "base", chat_template=None)


def test_the_template_frames_every_turn_and_opens_the_assistant_s(chat) -> None:  # type: ignore[no-untyped-def]
    tokens = encode(chat, [("user", "hello"), ("assistant", "yes"), ("user", "and now?")])
    assert all(type(token) is int for token in tokens)
    assert chat.decode(tokens) == (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"
        "<|im_start|>user\nand now?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_longer_conversation_goes_on_from_the_shorter_one(chat) -> None:  # type: ignore[no-untyped-def]
    """What lets a cache be carried on."""
    turns = [("user", "hello")]
    first = encode(chat, turns)
    longer = encode(chat, [*turns, ("assistant", "yes"), ("user", "more")])
    assert longer[: len(first)] == first


def test_without_a_template_texts_are_joined(base) -> None:  # type: ignore[no-untyped-def]
    tokens = encode(base, [("user", "one"), ("assistant", "two")])
    assert base.decode(tokens) == "one\n\ntwo"


@pytest.mark.parametrize("text", ["broken \ud800 paste", "\udfff"])
def test_a_lone_surrogate_does_not_stop_the_tokenizer(chat, base, text: str) -> None:  # type: ignore[no-untyped-def]
    for tokenizer in (chat, base):
        assert "?" in tokenizer.decode(encode(tokenizer, [("user", text)]))


@pytest.mark.parametrize("text", ["Grüße", "😀", "日本語", "a\x00b"])
def test_any_other_text_comes_back(base, text: str) -> None:  # type: ignore[no-untyped-def]
    assert base.decode(encode(base, [("user", text)])) == text


@pytest.mark.parametrize("template", ["{{ nope(", "{{ raise_exception('Only one turn is taken') }}"])
def test_a_template_that_fails_is_one_sentence(template: str, tmp_path: Path) -> None:
    tokenizer = load_model(tiny_folder(tmp_path / "m", chat_template=template)).tokenizer
    with pytest.raises(VeloxQuantError, match=r"chat template can't take this conversation \(.+\): choose"):
        encode(tokenizer, [("user", "hello")])


TURNS = [("system", "Be brief."), ("user", "hello")]
_REFUSES = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
)
_LEAVES_OUT = (
    "{% for m in messages if m['role'] != 'system' %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
)


def test_a_system_prompt_is_a_turn_where_the_template_knows_it(chat) -> None:  # type: ignore[no-untyped-def]
    assert system_manner(chat) == "template"
    assert chat.decode(encode(chat, TURNS)).startswith("<|im_start|>system\nBe brief.<|im_end|>\n")


@pytest.mark.parametrize("template", [_REFUSES + _LEAVES_OUT, _LEAVES_OUT], ids=["refuses", "leaves it out"])
def test_a_system_prompt_joins_the_first_message_elsewhere(template: str, tmp_path: Path) -> None:
    tokenizer = load_model(tiny_folder(tmp_path / "m", chat_template=template)).tokenizer
    assert system_manner(tokenizer) == "joined"
    turns = [*TURNS, ("assistant", "yes"), ("user", "more")]
    assert tokenizer.decode(encode(tokenizer, turns)) == (
        "user: Be brief.\n\nhello\nassistant: yes\nuser: more\n"
    )


def test_a_system_prompt_begins_the_text_of_a_base_model(base) -> None:  # type: ignore[no-untyped-def]
    assert system_manner(base) == "plain"
    assert base.decode(encode(base, TURNS)) == "Be brief.\n\nhello"


def test_a_reply_at_the_end_goes_on(chat, base) -> None:  # type: ignore[no-untyped-def]
    turns = [("user", "hello"), ("assistant", " and then ")]
    assert chat.decode(encode(chat, turns)).endswith("<|im_start|>assistant\n and then ")
    assert base.decode(encode(base, turns)) == "hello\n\n and then "
