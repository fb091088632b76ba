"""A download in a process of its own: it outlasts no window, slows no reply, and ends at once when told to.

The process writes a line of JSON for every bit of progress, and one for its end.
"""

import json
import sys
from dataclasses import asdict, dataclass
from typing import TextIO

from veloxquant_mlx.errors import Cancelled, VeloxQuantError

FLAG = "--fetch"
"""Option of the app's own program that starts such a process."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one line says."""

    fraction: float | None = None
    words: str = ""
    folder: str = ""
    """Where the model is: the end."""
    error: str = ""
    """Why it is not there, in one sentence: the end as well."""


def command(repository: str) -> list[str]:
    """The command to start; the packaged app's program is not Python but the app."""
    program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "studio"]
    return [*program, FLAG, repository]


def fetch(repository: str, out: TextIO) -> int:
    """Fetch and tell; returns the exit code. Ends when nobody listens any more."""
    from veloxquant_mlx.models.hub import download

    def tell(told: Told) -> None:
        try:
            print(json.dumps(asdict(told)), file=out, flush=True)
        except BrokenPipeError:
            raise Cancelled from None

    try:
        folder = download(repository, lambda fraction, words: tell(Told(fraction, words)))
        tell(Told(1.0, folder=str(folder)))
    except VeloxQuantError as error:
        tell(Told(error=str(error)))
        return 1
    except Cancelled:
        return 1
    return 0


def read(line: bytes) -> Told | None:
    """What a line says; None for anything else that a process prints."""
    try:
        return Told(**json.loads(line))
    except (ValueError, TypeError):
        return None
