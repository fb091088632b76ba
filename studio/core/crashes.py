"""A crash leaves a log, also one of native code, and the next start finds it.

Each running app holds a file of its own in the log folder, locked while it lives and removed when it ends
as it should. A file that nobody holds any more is the log of a crash.
"""

import contextlib
import faulthandler
import fcntl
import logging
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

from studio.core.components import OURS
from studio.core.surroundings import machine, versions
from veloxquant_mlx.atomic import write_atomic
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.paths import log_dir

LAST = "last-crash.log"
"""The newest crash that was found; the one before it makes room."""
_RUNNING = "running-*.log"
_RULE = "-" * 40 + "\n"
"""Between what was written at the start and what the crash wrote."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Crash:
    """How an earlier run of the app ended."""

    path: Path
    text: str
    """Versions, machine, and the call stacks of all threads where the crash left them."""
    has_trace: bool
    """False where the process was ended from outside, as the system does when memory runs out."""


@contextlib.contextmanager
def recorded(number: int) -> Iterator[None]:
    """Hold a crash file while the block runs; what ends the block uncaught is written to it and goes on.

    Args:
        number: the process's own, to tell the files of several apps apart.

    A log folder that can't be written leaves the app running without.
    """
    path = log_dir() / _RUNNING.replace("*", str(number))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        faulthandler.enable(file)
        file.write(_heading())
        file.flush()
    except OSError as error:
        _log.warning("No crash log: %s", error)
        yield
        return
    with file:
        try:
            yield
        except Exception:
            traceback.print_exc(file=file)
            raise
        except (SystemExit, KeyboardInterrupt):
            path.unlink(missing_ok=True)
            raise
        else:
            path.unlink(missing_ok=True)
        finally:
            faulthandler.disable()


def find_crash() -> Crash | None:
    """The newest crash that nobody was told of yet; it is kept as ``last-crash.log`` and told only once."""
    try:
        dead = [path for path in log_dir().glob(_RUNNING) if not _is_held(path)]
        if not dead:
            return None
        *older, newest = sorted(dead, key=lambda path: path.stat().st_mtime)
        for path in older:
            path.unlink()
        last = newest.with_name(LAST)
        said = newest.read_text(encoding="utf-8", errors="replace")
        # Found out only now: at every start it would delay the window.
        text = (
            "".join(f"{name}: {value or 'unknown'}\n" for name, value in (versions() | machine()).items())
            + said
        )
        write_atomic(last, text.encode())
        newest.unlink()
    except (OSError, VeloxQuantError) as error:
        _log.warning("The log of a crash can't be read: %s", error)
        return None
    _log.warning("The app did not end as it should; see %s", last)
    return Crash(last, text, bool(text.partition(_RULE)[2].strip()))


def _is_held(path: Path) -> bool:
    with path.open("rb") as file:
        return not _locks(file)


def _locks(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _heading() -> str:
    return f"Version {version(OURS)}, started {time.strftime('%Y-%m-%d %H:%M:%S %z')}\n{_RULE}"
