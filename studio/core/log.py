"""The log file: where the details of every error go."""

import logging
import logging.handlers
import sys
import threading
from pathlib import Path
from types import TracebackType

from veloxquant_mlx.paths import log_dir

_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


def log_file() -> Path:
    """Path of the log file."""
    return log_dir() / "studio.log"


def start_log() -> None:
    """Send this process's log to the log file, and to standard error what is worse than a warning.

    A folder that cannot be written leaves the app running with standard error alone, a disk that fills
    up later without a log.
    """
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.CRITICAL)
    root.addHandler(console)
    try:
        log_dir().mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            log_file(), maxBytes=2_000_000, backupCount=3, delay=False
        )
    except OSError as error:
        console.setLevel(logging.WARNING)
        root.warning("No log file: %s", error)
        return
    handler.setFormatter(logging.Formatter(_FORMAT))
    root.addHandler(handler)
    sys.excepthook = _note_crash
    threading.excepthook = lambda args: root.critical(
        "uncaught in thread", exc_info=args.exc_value if args.exc_value else None
    )


def _note_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("studio").critical("uncaught", exc_info=(kind, error, trace))
