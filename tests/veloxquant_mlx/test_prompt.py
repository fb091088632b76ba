"""From a conversation to tokens, with and without a chat template."""

from pathlib import Path

import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.models.load import load_model
from veloxquant_mlx.prompt import encode


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
