"""Writing a file a person asked for: whole or not at all, and why not in one sentence."""

import errno
from pathlib import Path

from .atomic import write_atomic
from .errors import VeloxQuantError


def save(what: str, path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` in one step; ``what`` names it in a refusal, as "The report".

    Raises VeloxQuantError; what was at ``path`` stays as it was then.
    """
    refused = f"{what} {path.name} was not saved"
    if path.exists() and not (path.is_file() or path.is_dir()):
        # Renaming over a device would take it away from every other program.
        raise VeloxQuantError(f"{refused}: that is no ordinary file, so choose another name.")
    try:
        write_atomic(path, data)
    except OSError as error:
        raise VeloxQuantError(f"{refused}: {_why(error)}.") from error


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full, so free some space or choose another place"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "its folder can't be written to, so choose another place"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "its folder is no longer there, so choose another place"
    if error.errno == errno.EISDIR:
        return "there is a folder of that name, so choose another name"
    return f"{error.strerror or type(error).__name__}, so choose another place"
