"""Writing model folders: room is checked first, and a refusal of the disk becomes a sentence."""

import errno
import fcntl
import glob
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ModelError
from ..progress import Progress

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_SPARE = 16 << 20
"""Bytes left free after the work, so that filling the disk isn't this project's doing."""
_POLL_SECONDS = 0.1


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


@contextmanager
def alone(folder: Path, progress: Progress) -> Iterator[None]:
    """Work in ``folder``, made where it isn't there, as the only process that does so through here.

    The system lets go of the lock when its holder ends, however it ends. ``progress`` is told while
    another process holds it. Raises OSError, and Cancelled from ``progress``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress(None, "Waiting for another window that is writing a model")
                # Other processes send no event to wait for.
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def sweep(folder: Path, *names: str) -> None:
    """Remove what killed runs left of ``names`` in ``folder``; call it inside ``alone``."""
    for name in names:
        for end in ("part", "old"):
            for left in folder.glob(f".{glob.escape(name)}.*.{end}"):
                shutil.rmtree(left, ignore_errors=True)
