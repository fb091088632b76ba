"""Text files that go to the model with a message."""

from pathlib import Path

from studio.core.conversation import Attachment
from veloxquant_mlx.errors import VeloxQuantError

LARGEST = 4_000_000
"""Bytes: about a million tokens, more than any model here reads."""


class AttachError(VeloxQuantError):
    """A file that can't be attached."""


def read_text_file(path: Path) -> Attachment:
    """The text of a file. Raises AttachError for what is no text, too large or out of reach."""
    name = path.name
    try:
        if path.is_dir():
            raise AttachError(f"{name} is a folder: attach the text files in it one by one.")
        size = path.stat().st_size
        if size > LARGEST:
            raise AttachError(
                f"{name} has {size / 1e6:,.1f} MB; attach {LARGEST / 1e6:.0f} MB of it at most."
            )
        data = path.read_bytes()
    except OSError as error:
        raise AttachError(f"{name} can't be read: {error.strerror}.") from error
    text = _decoded(data)
    if text is None:
        raise AttachError(f"{name} is not a text file: attach one that holds plain text.")
    if not text.strip():
        raise AttachError(f"{name} is empty: there is nothing to attach.")
    return Attachment(name, text.replace("\r\n", "\n").replace("\r", "\n"))


def _decoded(data: bytes) -> str | None:
    """UTF-8, UTF-16 with its mark, or the one-byte encoding of western text; None for other data."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\x00" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
        odd = sum(
            (character < " " and character not in "\t\n\r\f") or character == "\ufffd" for character in text
        )
        return None if odd > len(text) // 100 else text
