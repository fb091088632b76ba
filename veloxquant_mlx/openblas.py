"""OpenBLAS in front of the reference BLAS that MLX's Linux wheel links: 20 times faster prefill.

The dynamic linker only takes it from ``LD_PRELOAD`` at the start of a process, so the launcher starts
itself once more. ``VELOXQUANT_OPENBLAS=off`` or ``--no-openblas`` leaves everything as it is.
"""

import glob
import os
import sys

SWITCH = "VELOXQUANT_OPENBLAS"
FLAG = "--no-openblas"
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
    """Path of the system's threaded OpenBLAS, or None."""
    return next((found for place in _PLACES for found in sorted(glob.glob(place))), None)


def ensure_openblas() -> None:
    """Restart this process with OpenBLAS in front, once; says how to get it where it is missing.

    Does nothing on other systems than Linux, when told not to, or when it is in front already. Call it
    before anything heavy is imported.
    """
    if not sys.platform.startswith("linux"):
        return
    if FLAG in sys.argv:
        sys.argv.remove(FLAG)
        return
    before = os.environ.get("LD_PRELOAD", "")
    if os.environ.get(SWITCH) == "loaded":
        # Programs that this one starts need neither.
        del os.environ[SWITCH]
        kept = [part for part in before.split(":") if "openblas" not in part]
        os.environ["LD_PRELOAD"] = ":".join(kept)
        if not kept:
            del os.environ["LD_PRELOAD"]
        return
    if os.environ.get(SWITCH) == "off" or "openblas" in before:
        return
    library = find_openblas()
    if library is None:
        print(HINT, file=sys.stderr)
        return
    environment = os.environ | {SWITCH: "loaded", "LD_PRELOAD": ":".join(filter(None, [library, before]))}
    arguments = sys.argv if getattr(sys, "frozen", False) else [sys.executable, *sys.orig_argv[1:]]
    sys.stdout.flush()
    os.execve(sys.executable, arguments, environment)
