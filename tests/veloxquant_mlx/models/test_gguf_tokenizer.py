"""Tokenizers that come out of GGUF files."""

from pathlib import Path
from typing import Any

import pytest

from tests.gguf_writer import byte_level_metadata
from tests.tiny import VOCABULARY
from veloxquant_mlx.models.gguf_header import Header
from veloxquant_mlx.models.gguf_tokenizer import end_tokens, write_tokenizer

TEXTS = ["the inner 1212 things", "héllo  wörld\n\n\tx", "日本語 😀", "it's the end.   ", "", " a"]


def _tokenizer(folder: Path, **changes: Any) -> Any:
    from tokenizers import Tokenizer

    metadata = byte_level_metadata(VOCABULARY)
    metadata |= {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    write_tokenizer(Header(3, metadata, ()), folder, 512)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", ["smollm", "gpt-2", "llama-bpe", "qwen2", "default", "starcoder"])
def test_byte_level_round_trip(name: str, tmp_path: Path) -> None:
    tokenizer = _tokenizer(tmp_path, pre=name)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_digits_are_split_where_the_model_splits_them(tmp_path: Path) -> None:
    assert _tokenizer(tmp_path, pre="smollm").encode("12").tokens == ["1", "2"]
    assert _tokenizer(tmp_path, pre="qwen2").encode("12").tokens == ["1", "2"]
    assert _tokenizer(tmp_path, pre="gpt-2").encode("12").tokens == ["12"]
    assert _tokenizer(tmp_path, pre="llama-bpe", add_bos_token=False).encode("12").tokens == ["12"]


def test_beginning_token_as_the_file_asks(tmp_path: Path) -> None:
    first = VOCABULARY - 3
    assert _tokenizer(tmp_path, add_bos_token=True).encode("the").ids[0] == first
    assert first not in _tokenizer(tmp_path, add_bos_token=False).encode("the").ids
    assert _tokenizer(tmp_path, add_bos_token=True).encode("the", add_special_tokens=False).ids[0] != first


def test_control_tokens_are_one_token(tmp_path: Path) -> None:
    assert _tokenizer(tmp_path).encode("<|im_start|>the<|im_end|>").ids[0] == VOCABULARY - 2


def test_end_tokens_come_from_ids_and_names() -> None:
    header = Header(3, byte_level_metadata(VOCABULARY), ())
    assert end_tokens(header) == [VOCABULARY - 1, VOCABULARY - 3]


def test_sentence_piece_kind(tmp_path: Path) -> None:
    words = ["▁", "h", "e", "l", "o", "▁h", "el", "lo", "▁hel", "▁hello"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *words]
    scores = [0.0] * 259 + [-20.0] * 5 + [-1.0, -2.0, -3.0, -4.0, -5.0]
    types = [2, 3, 3] + [6] * 256 + [1] * len(words)
    tokenizer = _tokenizer(
        tmp_path, model="llama", tokens=tokens, scores=scores, token_type=types, bos_token_id=1,
        eos_token_id=2, unknown_token_id=0, add_bos_token=True,
    )  # fmt: skip
    assert tokenizer.encode("hello").tokens == ["<s>", "▁hello"]
    assert tokenizer.decode(tokenizer.encode("hello é").ids) == "hello é"
    assert "<0xC3>" in tokenizer.encode("é").tokens
