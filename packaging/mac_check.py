"""Look at a macOS app without starting it; on Linux, put one together from macOS wheels to look at.

    python packaging/mac_check.py APP            check an app
    python packaging/mac_check.py --assemble     fetch the wheels (some 250 MB), assemble, and check

What is assembled here is named "(unlaunched)": it has never been started and cannot start, since no wheel
brings Python's own library. What the checks see in it is where files lie, for which processor and system
they were built, and what they will look for.
"""

import argparse
import plistlib
import shutil
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import identity
import machfiles
from mac_wheels import download
from recipe import BUILD, COMMAND, NAME, data_files, wanted
from shipped import needed

from studio.core.components import OURS, required

UNLAUNCHED = f"{NAME} (unlaunched).app"
_MAC = {
    "sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix",
}  # fmt: skip
_OTHERS = ("mlx-cpu",)
"""Needed on Linux alone."""
_QT_MODULES = ("QtCore", "QtGui", "QtWidgets", "QtSvg", "QtOpenGL", "QtOpenGLWidgets")
_QT_PLUGINS = ("platforms", "styles", "imageformats", "iconengines", "platforminputcontexts")
"""What the app imports of Qt, and the plugins of those; PyInstaller finds both by its hooks."""
SLOTS = {"icp4", "ic11", "icp5", "ic12", "ic07", "ic13", "ic08", "ic14", "ic09", "ic10"}


def main() -> int:
    """Check an app; the exit code is 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("app", type=Path, nargs="?", help="an .app folder")
    parser.add_argument("--assemble", action="store_true", help="put one together from wheels first")
    options = parser.parse_args()
    if options.app is None and not options.assemble:
        parser.error("name an app, or --assemble one")
    app = options.app or assemble(fetch(BUILD / "mac-wheels"), BUILD / "mac" / UNLAUNCHED)
    problems = list(faults(app))
    files = machfiles.mach_files(app)
    print(f"{app.name}: {len(files)} Mach-O files, {len(problems)} problems")
    for problem in problems:
        print(f"mac_check: {problem}", file=sys.stderr)
    return 1 if problems else 0


# The checks ------------------------------------------------------------------------------------


def faults(app: Path) -> Iterator[str]:
    """What keeps an app from being right, as far as can be seen without starting it."""
    contents = app / "Contents"
    info = plistlib.loads((contents / "Info.plist").read_bytes())
    yield from plist_faults(info)
    if not (contents / "MacOS" / info.get("CFBundleExecutable", "")).is_file():
        yield "the program that Info.plist names is not there"
    yield from icon_faults(contents / "Resources" / info.get("CFBundleIconFile", ""))
    yield from metal_faults(contents)
    oldest, culprit = (0, 0), Path()
    for path in machfiles.mach_files(app):
        place = path.relative_to(contents)
        file = machfiles.read(path)
        if file is None:
            yield f"{place} is not for Apple silicon"
            continue
        yield from (f"{place} looks for {name} in vain" for name in machfiles.unresolved(file, app))
        if file.minimum > oldest:
            oldest, culprit = file.minimum, place
    said = str(info.get("LSMinimumSystemVersion", "0"))
    if tuple(int(part) for part in said.split(".")[:2]) < oldest:
        yield f"{culprit} needs macOS {oldest[0]}.{oldest[1]}, Info.plist asks for {said} only"


def plist_faults(info: dict[str, object]) -> Iterator[str]:
    """Where an Info.plist says something else than it should."""
    for key, value in identity.info_plist().items():
        if info.get(key) != value or type(info.get(key)) is not type(value):
            yield f"Info.plist has {key} = {info.get(key)!r}, not {value!r}"


def icon_faults(icon: Path) -> Iterator[str]:
    """What is wrong with an .icns file."""
    import icnsutil

    if not icon.is_file():
        yield "the icon that Info.plist names is not there"
        return
    missing = SLOTS - set(icnsutil.IcnsFile(str(icon)).media)
    if missing:
        yield f"the icon lacks {', '.join(sorted(missing))}"
    yield from (f"the icon: {fault}" for fault in icnsutil.IcnsFile.verify(str(icon)))


def metal_faults(contents: Path) -> Iterator[str]:
    """Whether MLX will find its Metal library: it lies beside libmlx, and at the top, by the link."""
    library = contents / "Frameworks" / "mlx" / "lib" / "libmlx.dylib"
    if not library.is_file():
        yield "libmlx.dylib is not where the app loads it from"
        return
    for place in (library.with_name("mlx.metallib"), contents / "Frameworks" / "mlx.metallib"):
        if not place.is_file():
            yield f"{place.relative_to(contents)} is missing: MLX would not find its Metal library"
        elif place.read_bytes()[:4] != b"MTLB":
            yield f"{place.relative_to(contents)} is no Metal library"


# Putting one together --------------------------------------------------------------------------


def wheels_wanted() -> tuple[list[str], list[str]]:
    """Requirements of the app on a Mac: those that are installed here, and those that differ there.

    The first name a version each; the second are to be fetched with what they need.
    """
    from packaging.requirements import Requirement

    here = {name: found for name, found in needed().items() if name not in _OTHERS}
    same = {name: f"{found.metadata['Name']}=={found.version}" for name, found in here.items()}
    other: dict[str, str] = {}
    for found in here.values():
        for line in found.requires or ():
            asked = Requirement(line)
            name = "-".join(asked.name.lower().split("_"))
            if asked.marker is None or not asked.marker.evaluate(_MAC | {"extra": ""}):
                continue
            if name not in here or here[name].version not in asked.specifier:
                other[name] = f"{asked.name}{asked.specifier}"
    differing = {also for name in other for also in required(name)} | {OURS}
    pinned = [line for name, line in same.items() if name not in differing]
    return sorted([*pinned, f"pyinstaller=={installed_version('pyinstaller')}"]), sorted(other.values())


def fetch(folder: Path) -> list[Path]:
    """Download the wheels into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    same, other = wheels_wanted()
    for asked in (["--no-deps", *same], other):
        download(asked, folder)
    return sorted(folder.glob("*.whl"))


def assemble(wheels: list[Path], app: Path) -> Path:
    """Lay files out as PyInstaller does: code for the processor in Frameworks, all else in Resources."""
    shutil.rmtree(app, ignore_errors=True)
    contents = app / "Contents"
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            if wheel.name.startswith("pyinstaller-"):
                _put(contents / "MacOS" / COMMAND, archive.read("PyInstaller/bootloader/Darwin-64bit/runw"))
                continue
            for name in archive.namelist():
                if not name.endswith("/") and wanted(name) and ".data/" not in name:
                    _place(contents, name, archive.read(name))
    for source, folder in data_files():
        _put(contents / "Resources" / folder / Path(source).name, Path(source).read_bytes())
    icons = identity.write_icons(BUILD / "icons")
    _put(contents / "Resources" / "icon.icns", (icons / "icon.icns").read_bytes())
    _put(contents / "Info.plist", plistlib.dumps(identity.info_plist()))
    _remove_unused_qt(app)
    # As the specification does on a Mac.
    (contents / "Frameworks" / "mlx.metallib").symlink_to("mlx/lib/mlx.metallib")
    return app


def _remove_unused_qt(app: Path) -> None:
    """Leave of Qt what the app imports and what that is linked to, as PyInstaller does."""
    qt = app / "Contents" / "Frameworks" / "PySide6"
    there = {path.resolve(): path for path in machfiles.mach_files(qt)}
    waiting = [qt / f"{module}.abi3.so" for module in _QT_MODULES]
    waiting += [path for kind in _QT_PLUGINS for path in (qt / "Qt" / "plugins" / kind).glob("*.dylib")]
    kept: set[Path] = set()
    while waiting:
        path = waiting.pop().resolve()
        file = machfiles.read(path) if path in there and path not in kept else None
        if file is not None:
            kept.add(path)
            waiting += machfiles.resolved(file, app)
    for path in there.keys() - kept:
        there[path].unlink()


def _place(contents: Path, name: str, content: bytes) -> None:
    inside = contents / "Frameworks" / name
    if content[:4] in machfiles.MAGICS:
        _put(inside, content)
        return
    _put(contents / "Resources" / name, content)
    if name.endswith(".metallib"):
        inside.parent.mkdir(parents=True, exist_ok=True)
        up = "/".join([".."] * (len(Path(name).parts)))
        inside.symlink_to(f"{up}/Resources/{name}")


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
