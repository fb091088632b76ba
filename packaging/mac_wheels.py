"""On a Mac: wheels for the oldest macOS that the app is for, whichever this one is.

pip takes the newest wheels that this Mac can run; an app made of them would ask for a Mac like this one.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

from recipe import MINIMUM_MACOS

PLATFORM = f"macosx_{MINIMUM_MACOS.replace('.', '_')}_arm64"
_TAG = re.compile(r"^Tag: \S+-macosx_(\d+)_(\d+)_\w+$", re.MULTILINE)


def too_new(installed: Iterable[Distribution]) -> list[str]:
    """Those whose wheels are for a newer macOS only, as requirements of exactly the installed versions."""
    oldest = tuple(int(part) for part in MINIMUM_MACOS.split("."))
    found = []
    for here in installed:
        tags = [(int(major), int(minor)) for major, minor in _TAG.findall(here.read_text("WHEEL") or "")]
        if tags and min(tags) > oldest:
            found.append(f"{here.metadata['Name']}=={here.version}")
    return found


def download(requirements: Iterable[str], folder: Path) -> None:
    """Fetch macOS wheels for this Python into ``folder``, on any system."""
    command = [
        sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
        "--only-binary=:all:", "--platform", PLATFORM, "--implementation", "cp",
        "--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}", "--dest", str(folder),
        *requirements,
    ]  # fmt: skip
    subprocess.run(command, check=True)


def exchange(installed: Iterable[Distribution]) -> None:
    """Put wheels for the oldest macOS in the place of newer ones, in this environment."""
    wanted = too_new(installed)
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as name:
        download(["--no-deps", *wanted], Path(name))
        wheels = [str(path) for path in sorted(Path(name).glob("*.whl"))]
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", *wheels]
        subprocess.run(command, check=True)
