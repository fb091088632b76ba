"""The edge of the engine's thread: no failure gets past it unsaid."""

import contextlib
import logging
import traceback
from collections.abc import Iterator

from studio.ui.events import Events
from veloxquant_mlx.errors import Cancelled, VeloxQuantError

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def edge(tells: Events, where: str, doing: str) -> Iterator[None]:
    """The thread's edge: every failure becomes one sentence on the screen and details in the log."""
    try:
        yield
    except Cancelled:
        tells.cancelled.emit(where)
    except VeloxQuantError as error:
        _log.warning("%s: %s", doing, error, exc_info=error.__cause__ is not None)
        tells.failed.emit(where, str(error), traceback.format_exc())
    except MemoryError:
        _log.exception(doing)
        sentence = (
            f"The machine ran out of memory while {doing}; choose a smaller setting or a shorter context."
        )
        tells.failed.emit(where, sentence, traceback.format_exc())
    except Exception as error:
        _log.exception(doing)
        sentence = (
            f"Something unexpected stopped {doing} ({type(error).__name__}); the details are in the log."
        )
        tells.failed.emit(where, sentence, traceback.format_exc())
