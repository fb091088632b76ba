"""OpenBLAS in front of the reference BLAS that MLX's Linux wheel links: 20 times faster prefill.

The dynamic linker looks a library's symbols up in the process's global scope before the library's own
dependencies. OpenBLAS loaded globally, before MLX is, therefore answers MLX's calls.
``VELOXQUANT_OPENBLAS=off`` or ``--no-openblas`` leaves everything as it is.
"""

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache

SWITCH = "VELOXQUANT_OPENBLAS"
FLAG = "--no-openblas"
WAIT = "OPENBLAS_THREAD_TIMEOUT"
_WAIT = "18"
"""Two to this power ticks that OpenBLAS's threads spin for more work before they sleep: a tenth of a
millisecond, which spans the gaps between a layer's products. Its own 26 keeps a core for 25 ms, which
attention on codes and the window have better uses for."""
HINT = (
    "MLX computes about 20 times slower here without OpenBLAS: 'sudo apt-get install libopenblas0-pthread' "
    "brings it (VELOXQUANT_OPENBLAS=off hides this line)."
)
_PLACES = (
    "/usr/lib/*/openblas-pthread/libopenblas.so.0",
    "/usr/lib64/libopenblasp.so.0",
    "/usr/lib64/libopenblas.so.0",
    "/usr/lib/libopenblas.so.0",
    "/usr/lib/*/libopenblas.so.0",
)


def find_openblas() -> str | None:
    """Path of a threaded OpenBLAS: the packaged app's own, else the system's; None without one."""
    # PyInstaller names its folder so; the packaged app is the same on every system.
    packed = getattr(sys, "_MEIPASS", None)
    places = ([os.path.join(glob.escape(packed), "libopenblas.so.0")] if packed else []) + [*_PLACES]
    return next((found for place in places for found in sorted(glob.glob(place))), None)


def ensure_openblas() -> None:
    """Put OpenBLAS in front for this process; says how to get it where it is missing.

    Does nothing on other systems than Linux, when told not to, or when it is in front already. Call it
    before anything heavy is imported: it does not help a MLX that is loaded already.
    """
    if not sys.platform.startswith("linux"):
        return
    if FLAG in sys.argv:
        sys.argv.remove(FLAG)
        return
    if os.environ.get(SWITCH) == "off" or "openblas" in os.environ.get("LD_PRELOAD", ""):
        return
    library = find_openblas()
    if library is None:
        print(HINT, file=sys.stderr)
        return
    os.environ.setdefault(WAIT, _WAIT)
    try:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        print(f"OpenBLAS can't be used ({error}), so MLX computes about 20 times slower.", file=sys.stderr)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Products within the block take one core each, where it is OpenBLAS that computes them.

    Of several small ones side by side each would otherwise wait for the others' cores.
    """
    libraries = _libraries()
    before = [get() for get, _ in libraries]
    for _, put in libraries:
        put(1)
    try:
        yield
    finally:
        for (_, put), count in zip(libraries, before, strict=True):
            put(count)


@lru_cache(maxsize=1)
def _libraries() -> list[tuple[Callable[[], int], Callable[[int], object]]]:
    """What tells and sets the threads of each OpenBLAS: the one in front, and NumPy's own."""
    import numpy as np

    own = glob.glob(os.path.join(f"{glob.escape(np.__path__[0])}.libs", "libscipy_openblas*"))
    named = [(ctypes.CDLL(None), "openblas_{}_num_threads")]
    named += [(ctypes.CDLL(path), "scipy_openblas_{}_num_threads64_") for path in own]
    return [
        (library[name.format("get")], library[name.format("set")])
        for library, name in named
        if hasattr(library, name.format("set"))
    ]
