"""Bundled texts, a person's own, and what is said when they can't be used."""

from pathlib import Path

import pytest

from tests.tiny import write_tokenizer
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import BUNDLED, cut, read_text


class Letters:
    """A token a letter."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def encode(self, text: str, verbose: bool = True) -> list[int]:
        self.asked.append(len(text))
        return [ord(letter) for letter in text]


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_texts_are_plays_of_a_good_length(name: str) -> None:
    text = read_text(name)
    assert text.startswith("# ")
    assert "## ACT I" in text
    # About three letters a token: enough for tokens 1,000 to 5,200 of any tokenizer.
    assert 40_000 < len(text.encode()) < 60_000


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_bytes("\ufeffÜber allen Gipfeln".encode())
    assert read_text(str(file)) == "Über allen Gipfeln"


@pytest.mark.parametrize("data", [b"\x00\x01 text", b"\xff\xfe\x00", "Café".encode("latin-1")])
def test_binary_files_are_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(data)
    with pytest.raises(VeloxQuantError, match=r"^picture\.png is not a UTF-8 text file: .*\.$"):
        read_text(str(file))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VeloxQuantError, match=r"There is no text file .* or one of twelfth-night, hamlet"):
        read_text(str(tmp_path / "absent.txt"))
    with pytest.raises(VeloxQuantError, match="can't be read"):
        read_text(str(tmp_path))


def test_cut_takes_the_tokens_asked_for() -> None:
    assert cut(Letters(), "abcdefgh", 2, 3) == [ord(letter) for letter in "cde"]
    assert len(cut(Letters(), "abcd", 0, 4)) == 4


def test_cut_tokenizes_no_more_than_needed() -> None:
    tokenizer = Letters()
    cut(tokenizer, "x" * 100_000, 3, 6)
    assert tokenizer.asked == [400]


def test_a_short_text_is_refused_with_both_numbers() -> None:
    with pytest.raises(VeloxQuantError, match=r"^Mine has 8 tokens, but 1,009 are wanted .*--skip\.$"):
        cut(Letters(), "abcdefgh", 1000, 9, "Mine")


def test_the_library_s_tokenizer_says_nothing_about_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlx_lm.utils import load_tokenizer

    write_tokenizer(tmp_path)
    assert len(cut(load_tokenizer(tmp_path), read_text("hamlet"), 1000, 5000)) == 5000
    assert capsys.readouterr().err == ""
