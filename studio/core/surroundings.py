"""What a measurement was made with: versions and machine. What is unknown is None, never a guess."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = {
    "veloxquant-studio": ("veloxquant-studio",),
    "mlx": ("mlx",),
    "mlx-lm": ("mlx-lm",),
    "PySide6": ("PySide6-Essentials", "PySide6"),
}
"""Name in a report -> the distributions that may carry it."""


def versions() -> dict[str, str | None]:
    """Name -> version of Python and of what the figures depend on. Imports none of them."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    return found | {name: _version(candidates) for name, candidates in _PACKAGES.items()}


def machine() -> dict[str, Any]:
    """Operating system, processor, cores and memory. Nothing that names the machine or its person."""
    import psutil

    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def _version(candidates: tuple[str, ...]) -> str | None:
    for name in candidates:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _processor() -> str | None:
    """The processor as the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or None
