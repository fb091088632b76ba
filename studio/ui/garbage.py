"""When Python must not look for garbage."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collecting_nothing() -> Iterator[None]:
    """Qt calls into Python while it holds a lock or goes through a list of widgets: a collection there could
    delete a widget that is still on the list, or that waits for the lock for ever."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
