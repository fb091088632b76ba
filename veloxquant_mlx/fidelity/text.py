"""The text that is fed to the model: a bundled play or a file of the person's own."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import VeloxQuantError

BUNDLED = ("twelfth-night", "hamlet")
"""Names of the texts in the package's ``texts`` folder; its README says where they come from."""

_LETTERS_PER_TOKEN = 40
"""No natural text has longer tokens on average; what lies beyond is not worth tokenizing."""


def read_text(name: str) -> str:
    """A bundled text by its name, or else the UTF-8 text file at that path.

    Raises VeloxQuantError for a file that is missing, a folder, not readable or not text.
    """
    if name in BUNDLED:
        folder = resources.files("veloxquant_mlx") / "texts"
        return (folder / f"{name}.md").read_text(encoding="utf-8")
    path = Path(name).expanduser()
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise VeloxQuantError(
            f"There is no text file {path}: give a file that exists, or one of {', '.join(BUNDLED)}."
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise VeloxQuantError(f"The text file {path} can't be read ({reason}): choose another.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise VeloxQuantError(f"{path.name} is not a UTF-8 text file: save it as plain text first.")
    return text


def cut(tokenizer: Any, text: str, skip: int, count: int, name: str = "The text") -> Sequence[int]:
    """Tokens ``skip`` to ``skip + count`` of a text.

    Args:
        tokenizer: mlx_lm's or transformers' own.

    Raises VeloxQuantError when the text is too short.
    """
    needed = skip + count
    reach = (needed + 1) * _LETTERS_PER_TOKEN
    # One long call on a whole book would take minutes; a cut inside a word only touches the last token.
    tokens: Sequence[int] = tokenizer.encode(text[:reach], verbose=False)
    if len(tokens) < needed and len(text) > reach:
        tokens = tokenizer.encode(text, verbose=False)
    if len(tokens) < needed:
        raise VeloxQuantError(
            f"{name} has {len(tokens):,} tokens, but {needed:,} are wanted ({skip:,} skipped and {count:,} "
            "fed): take a longer text or lower --tokens or --skip."
        )
    return tokens[skip:needed]
