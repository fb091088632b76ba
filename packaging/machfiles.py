"""What macOS will look at before it starts a program: the headers of its Mach-O files, read anywhere."""

from dataclasses import dataclass
from pathlib import Path

MAGICS = {
    bytes.fromhex(word)
    for word in (
        "feedface",
        "feedfacf",
        "cefaedfe",
        "cffaedfe",
        "cafebabe",
        "cafebabf",
        "bebafeca",
        "bfbafeca",
    )
}
_SYSTEM = ("/usr/lib/", "/System/Library/")
ARM64 = 0x0100000C


@dataclass(frozen=True, slots=True)
class MachO:
    """The part for Apple silicon of one file."""

    path: Path
    libraries: tuple[str, ...]
    """Libraries it can't do without, as it names them."""
    search: tuple[str, ...]
    """Its rpaths."""
    minimum: tuple[int, int]
    """The oldest macOS it runs on, (major, minor); (0, 0) where it says nothing."""


def mach_files(folder: Path) -> list[Path]:
    """Every Mach-O file below a folder, links left out."""
    return sorted(path for path in folder.rglob("*") if not path.is_symlink() and is_mach(path))


def is_mach(path: Path) -> bool:
    """Whether a file begins as a Mach-O file does. (A Java class does too; there are none here.)"""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) in MAGICS


def read(path: Path) -> MachO | None:
    """The file's part for Apple silicon; None where it has none."""
    from macholib import mach_o
    from macholib.MachO import MachO as Headers

    for header in Headers(str(path)).headers:
        if header.header.cputype != ARM64:
            continue
        libraries, search, minimum = [], [], (0, 0)
        for load, command, data in header.commands:
            if load.cmd in (mach_o.LC_LOAD_DYLIB, mach_o.LC_REEXPORT_DYLIB):
                libraries.append(_text(data))
            elif load.cmd == mach_o.LC_RPATH:
                search.append(_text(data))
            elif load.cmd == mach_o.LC_BUILD_VERSION:
                minimum = _version(int(command.minos))
            elif load.cmd == mach_o.LC_VERSION_MIN_MACOSX:
                minimum = _version(int(command.version))
        return MachO(path, tuple(libraries), tuple(search), minimum)
    return None


def resolved(file: MachO, app: Path) -> list[Path]:
    """The libraries of a file that lie in the app."""
    found = (_look(name, file, app) for name in file.libraries)
    return [path for path in found if path is not None]


def unresolved(file: MachO, app: Path) -> list[str]:
    """The libraries of a file that neither macOS nor the app has where the file looks for them."""
    return [
        name for name in file.libraries if not name.startswith(_SYSTEM) and _look(name, file, app) is None
    ]


def _look(name: str, file: MachO, app: Path) -> Path | None:
    places = [name]
    if name.startswith("@rpath/"):
        # The program itself searches there, and so does what it loads.
        searched = [*file.search, "@executable_path/../Frameworks"]
        places = [f"{folder}/{name.removeprefix('@rpath/')}" for folder in searched]
    found = (_place(place, file.path, app / "Contents") for place in places)
    return next((path for path in found if path is not None and path.exists()), None)


def _place(name: str, file: Path, contents: Path) -> Path | None:
    """Where a path with dyld's words in it lies, if it lies in the app."""
    for word, folder in (("@loader_path", file.parent), ("@executable_path", contents / "MacOS")):
        if name.startswith(word):
            path = (folder / name.removeprefix(word).lstrip("/")).resolve()
            return path if path.is_relative_to(contents.resolve()) else None
    return None


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode()


def _version(packed: int) -> tuple[int, int]:
    return packed >> 16, packed >> 8 & 0xFF
