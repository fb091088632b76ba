"""What goes into the packaged app, and what stays out: read by the specification and by its checks."""

import fnmatch
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
IS_MAC = sys.platform == "darwin"

Entry = tuple[str, str, str]
"""PyInstaller's own: place in the bundle, path it comes from, kind."""

NAME = "VeloxQuant Studio"
COMMAND = "veloxquant-studio"
IDENTIFIER = "studio.veloxquant.VeloxQuantStudio"
MINIMUM_MACOS = "14.0"
"""What the wheels of MLX and numpy ask for; mac_check.py holds it against every library."""

_SOURCE = ("studio", "veloxquant_mlx", "assets", "packaging", "pyproject.toml", "README.md", "LICENSE")

HIDDEN = ("mlx._reprlib_fix", "mlx.__array_api_info")
"""Imported by MLX's C++ core, which no analysis of Python sees."""
WHOLE = (
    "mlx_lm.models", "mlx_lm.tool_parsers", "mlx_lm.chat_templates", "mlx_lm.server",
    "veloxquant_mlx", "studio", "transformers", "pip",
)  # fmt: skip
"""Packages that look for their own modules at run time, by name or in their folder."""

EXCLUDED = (
    # Behind GNU readline's licence, and of no use in a window.
    "readline", "curses", "tkinter", "idlelib", "lib2to3",
    # Asked for only where they are there.
    "pydantic", "pydantic_core", "typer", "hf_xet", "numpy.f2py", "numpy.distutils",
    "pyqtgraph.examples", "pyqtgraph.opengl", "pyqtgraph.jupyter",
    "PySide6.QtNetwork", "PySide6.QtQml", "PySide6.QtQuick", "PySide6.QtSql", "PySide6.QtPrintSupport",
    "PySide6.QtUiTools", "PySide6.QtDesigner", "PySide6.QtHelp", "PySide6.QtConcurrent", "PySide6.QtXml",
)  # fmt: skip

_UNUSED_MODELS = re.compile(
    r"transformers[./](cli|testing_utils|pipelines|exporters)\b"
    r"|transformers[./]models[./](?!auto[./])\w+[./]"
    r"(modeling|modular|image_processing|video_processing|feature_extraction|processing|convert)_"
)
"""Networks and media for PyTorch: mlx_lm brings its own, and only tokenizers and configurations are used."""
_UNUSED_FILES = (
    "PySide6/Qt/translations/*", "PySide6/Qt/qml/*", "PySide6/Qt/metatypes/*",
    "*/plugins/platformthemes/libqgtk3*", "*/plugins/platforms/libqeglfs*", "*/plugins/platforms/libqvnc*",
    "*/plugins/platforms/libqlinuxfb*", "*/plugins/platforms/libqminimalegl*",
    "*/plugins/platforms/libqvkkhr*",
    "*/plugins/egldeviceintegrations/*", "*/plugins/networkinformation/*", "*/plugins/tls/*",
    "*/plugins/qmltooling/*", "*/plugins/sqldrivers/*", "*/plugins/generic/*", "*/plugins/printsupport/*",
    "*/plugins/platforminputcontexts/*virtualkeyboard*", "*/plugins/virtualkeyboard/*",
    "*/plugins/wayland-graphics-integration-client/*", "*/plugins/imageformats/libqpdf*",
    "*libQt6Qml*", "*libQt6Quick*", "*libQt6VirtualKeyboard*", "*libQt6Pdf*", "*libQt6EglF*",
    "*/QtQml.framework/*", "*/QtQuick.framework/*", "*/QtPdf.framework/*", "*/QtVirtualKeyboard.framework/*",
    # What an installer notes for itself: where this checkout and its environment lie.
    "*.dist-info/RECORD", "*.dist-info/INSTALLER", "*.dist-info/REQUESTED", "*.dist-info/direct_url.json",
    "mlx/include/*", "mlx/share/*", "assets/screenshots/*", "*/pyqtgraph/examples/*", "*/tests/*",
)  # fmt: skip
_SYSTEM_LIBRARIES = (
    "libgtk-3*", "libgdk-3*", "libgdk_pixbuf*", "libatk*", "libatspi*", "libcairo*", "libpango*",
    "libharfbuzz*", "libfribidi*", "libthai*", "libdatrie*", "libepoxy*", "libcups*", "libGL.*", "libEGL.*",
    "libGLX*", "libGLdispatch*", "libdrm*", "libgbm*", "libwayland*", "libfontconfig*",
    "libcud*", "libnv*",
)  # fmt: skip
"""Nothing kept needs these, or (OpenGL, CUDA, fontconfig) only the system's own copy can be right."""


def version() -> str:
    """The version, from its one place."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def copy_source(target: Path) -> None:
    """Copy what a build reads, and nothing that one left, into a new folder."""
    for name in _SOURCE:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(path, target)


def wanted(name: str) -> bool:
    """Whether a module, or a file by its place in the bundle, belongs into it."""
    path = name.replace("\\", "/")
    if _UNUSED_MODELS.search(path) or path.endswith(".pyi"):
        return False
    last = path.rpartition("/")[2]
    return not (
        any(fnmatch.fnmatchcase(path, pattern) for pattern in _UNUSED_FILES)
        or any(fnmatch.fnmatchcase(last, pattern) for pattern in _SYSTEM_LIBRARIES)
    )


def pruned(entries: Iterable[Entry]) -> list[Entry]:
    """The wanted ones of PyInstaller's (place, source, kind), sorted: the same input, the same bundle.

    A link goes with what it points at.
    """
    entries = list(entries)
    gone = {entry[0] for entry in entries if not wanted(entry[0])}
    links = {
        place for place, source, kind in entries
        if kind == "SYMLINK" and (Path(place).parent / source).as_posix() in gone
    }  # fmt: skip
    return sorted(entry for entry in entries if entry[0] not in gone | links)


def data_files() -> list[tuple[str, str]]:
    """The project's own files that are no Python: (source, folder in the bundle)."""
    found = [path for name in ("assets", "studio", "veloxquant_mlx") for path in (ROOT / name).rglob("*")]
    return sorted(
        (str(path), str(path.parent.relative_to(ROOT)))
        for path in found
        if path.is_file() and not {"__pycache__", "screenshots"} & set(path.parts) and path.suffix != ".py"
    )


def libraries() -> list[tuple[str, str]]:
    """OpenBLAS for MLX on Linux, under the name that ``veloxquant_mlx.openblas`` looks for."""
    if IS_MAC:
        return []
    from veloxquant_mlx.openblas import find_openblas

    found = find_openblas()
    if found is None:
        sys.exit("The bundle needs OpenBLAS: 'sudo apt-get install libopenblas0-pthread' and build again.")
    return [(found, ".")]


def without_symbols(entries: Iterable[Entry], work: Path) -> list[Entry]:
    """The same entries with Python's library free of what only a debugger reads (17 of 23 MB).

    Nothing else is stripped: numpy's OpenBLAS does not survive it.
    """
    kept = []
    for place, source, kind in entries:
        if not IS_MAC and re.fullmatch(r"libpython3\.\d+\.so.*", place) and shutil.which("strip"):
            smaller = work / place
            subprocess.run(["strip", "--strip-debug", "-o", str(smaller), source], check=True)
            source = str(smaller)
        kept.append((place, source, kind))
    return kept


def contents(starter: bool) -> dict[str, Any]:
    """What the packaged app must find in itself, as its self-test reads it."""
    from studio.core.proof import importable_models
    from veloxquant_mlx.config import methods

    return {
        "version": version(),
        "methods": list(methods()),
        "model_modules": importable_models(),
        "starter": starter,
    }


def of_the_needed(entries: Iterable[Entry], needed: Iterable[str]) -> list[Entry]:
    """The entries without metadata of packages that only the tools of this environment need.

    transformers' hook takes along whatever is installed; the bundle must not depend on that, nor on what
    an editable install left in the checkout: installers write dist-info, so an egg-info is the checkout's.
    """
    names = {name.replace("-", "_") for name in needed}

    def belongs(place: str) -> bool:
        top = place.partition("/")[0]
        if top.endswith(".egg-info"):
            return False
        return not top.endswith(".dist-info") or re.sub(r"[-.]+", "_", top.split("-")[0]).lower() in names

    return [entry for entry in entries if belongs(entry[0])]
