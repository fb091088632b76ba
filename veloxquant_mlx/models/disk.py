"""Writing model folders: room is checked first, and a refusal of the disk becomes a sentence."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ModelError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_SPARE = 16 << 20
"""Bytes left free after the work, so that filling the disk isn't this project's doing."""


def readable(count: int) -> str:
    """A number of bytes in words, decimal units."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def need_space(folder: Path, count: int) -> None:
    """Raise ModelError unless ``count`` bytes fit on the disk that holds (or will hold) ``folder``."""
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < count + _SPARE:
        raise ModelError(
            f"The disk that holds {folder} has {readable(free)} free and {readable(count + _SPARE)} are "
            "needed: make room and try again."
        )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into one ModelError sentence about ``folder``."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            text = f"The disk that holds {folder} is full: make room and try again."
        elif error.errno in _FORBIDDEN:
            text = f"{folder} can't be written to: give yourself write permission or choose another folder."
        else:
            text = f"Writing to {folder} failed ({error.strerror or error}): choose another folder."
        raise ModelError(text) from error
