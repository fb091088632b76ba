"""Writing so that a reader sees the old state or the new one, never half of it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write that takes the place of ``path`` when the block ends without an error.

    It lies beside ``path``, is flushed to the disk and then renamed. Raises OSError; on any exception an
    existing ``path`` stays untouched and no temporary file is left behind.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data`` in one step; see ``atomic_file``."""
    with atomic_file(path) as file:
        file.write(data)


@contextmanager
def atomic_folder(destination: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``destination`` when the block ends without an error.

    On any exception, Cancelled included, the temporary folder is removed and an existing
    ``destination`` stays as it was. Leftovers of a killed run are named ``.NAME.*.part``.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(dir=destination.parent, prefix=f".{destination.name}.", suffix=".part"))
    try:
        os.chmod(working, 0o755)
        yield working
        if destination.exists():
            replaced = working.with_suffix(".old")
            os.replace(destination, replaced)
            try:
                os.replace(working, destination)
            except BaseException:
                os.replace(replaced, destination)
                raise
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            os.replace(working, destination)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise
