"""Whose files are in the packaged app: the list of components, their licences and their texts."""

import dataclasses
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from recipe import ROOT

from studio.core.components import LICENCE_FILE, Component, described, required

HERE = Path(__file__).resolve().parent
DOCS = Path("/usr/share/doc")
_STANDARD = {"Apache": ROOT / "LICENSE", "LGPL": HERE / "licences" / "LGPL-3.0.txt"}
"""A word of a licence's name -> its text, for wheels that bring none."""
_QT_NOTE = (
    "Qt, PySide6 and Shiboken are used under the LGPL, version 3. They lie in this app as libraries of their "
    "own, which you may replace by your own builds. Their source is offered at https://code.qt.io.\n\n"
)


def needed() -> dict[str, Distribution]:
    """Normalised name -> distribution of what is shipped: what the app requires, and pip.

    With pip the packaged app fetches the starter model, as a checkout does.
    """
    return required() | required("pip")


class UnknownOwner(Exception):
    """A file whose licence nobody could name must not be shipped."""


def foreign_packages() -> list[str]:
    """Top-level modules of installed distributions that the app does not need: tools, and what they need."""
    wanted = {here.metadata["Name"] for here in needed().values()}
    ours: set[str] = set()
    others: set[str] = set()
    for here in distributions():
        (ours if here.metadata["Name"] in wanted else others).update(_top_levels(here))
    return sorted(name for name in others - ours if name.isidentifier() and not name.startswith("__"))


def _top_levels(here: Distribution) -> set[str]:
    tops = {
        file.parts[0] for file in here.files or () if file.suffix in (".py", ".so") and ".." not in file.parts
    }
    return {name.partition(".")[0] for name in tops if "-" not in name}


def components(files: Iterable[tuple[str, str]], starter: Path | None = None) -> list[Component]:
    """Everyone whose files are shipped, by name.

    Args:
        files: (place in the bundle, path it comes from) of every file.
        starter: folder of the starter model where it is shipped.

    Raises UnknownOwner naming the files nobody is known for.
    """
    installed = _owners_of_installed()
    owners: dict[str, Distribution] = {}
    system: set[Path] = set()
    for _, origin in files:
        path = Path(origin).resolve()
        owner = installed.get(str(path))
        if owner is not None:
            owners[owner.metadata["Name"]] = owner
        elif not _is_ours_or_python(path) and not (starter and path.is_relative_to(starter.resolve())):
            system.add(path)
    shipped = {name: with_text(described(owner)) for name, owner in owners.items()}
    python = Component("Python", sys.version.split()[0], "PSF-2.0", _python_text())
    shipped[python.name] = python
    installer = described(distribution("pyinstaller"))
    shipped[installer.name] = dataclasses.replace(installer, name="PyInstaller (start of the program)")
    shipped |= {one.name: one for one in _of_system(system)}
    ours = described(distribution("veloxquant-studio"))
    shipped[ours.name] = dataclasses.replace(ours, text=(ROOT / "LICENSE").read_text(encoding="utf-8"))
    if starter is not None:
        text = "\n\n".join(
            (starter / name).read_text("utf-8", "replace") for name in ("SOURCE.md", "LICENSE")
        )
        shipped[starter.name] = Component(starter.name, "", "Apache-2.0", text)
    font = (ROOT / "assets" / "fonts" / "LICENSE-Inter.txt").read_text(encoding="utf-8")
    shipped["Inter"] = Component("Inter", "", "OFL-1.1", font)
    return sorted(shipped.values(), key=lambda one: one.name.lower())


def with_text(component: Component) -> Component:
    """The component with the standard text of its licence where it brings none."""
    if component.text:
        return component
    found = next((path for word, path in _STANDARD.items() if word in component.licence), None)
    if found is None:
        raise UnknownOwner(f"{component.name} brings no licence text and names '{component.licence}'.")
    text = found.read_text(encoding="utf-8")
    if found.name.startswith("LGPL"):
        text = _QT_NOTE + text + "\n\n" + (HERE / "licences" / "GPL-3.0.txt").read_text(encoding="utf-8")
    return dataclasses.replace(component, text=text)


def _owners_of_installed() -> dict[str, Distribution]:
    return {
        str(Path(str(here.locate_file(file))).resolve()): here
        for here in distributions()
        for file in here.files or ()
        if ".." not in file.parts
    }


def _is_ours_or_python(path: Path) -> bool:
    home = Path(sys.base_prefix).resolve()
    places = [ROOT, Path(sysconfig.get_path("stdlib")).resolve(), *([home] if home != Path("/usr") else [])]
    return any(path.is_relative_to(place) for place in places)


def _python_text() -> str:
    places = [
        Path(sysconfig.get_path("stdlib")) / "LICENSE.txt",
        Path(sys.base_prefix) / "LICENSE.txt",
        DOCS / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "copyright",
    ]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise UnknownOwner("The licence of this Python was not found beside its library.")
    return found.read_text(encoding="utf-8", errors="replace")


def _of_system(paths: set[Path]) -> list[Component]:
    """The packages of the system, or of Homebrew, that libraries were taken from."""
    brewed = {path: kegs[0] for path in paths if (kegs := [p for p in path.parents if _is_keg(p)])}
    return [_of_keg(keg) for keg in sorted(set(brewed.values()))] + _of_debian(paths - brewed.keys())


def _is_keg(folder: Path) -> bool:
    return folder.parent.parent.name == "Cellar"


def _of_keg(keg: Path) -> Component:
    """One package of Homebrew: its folder is Cellar/NAME/VERSION."""
    texts = [path for path in sorted(keg.iterdir()) if LICENCE_FILE.match(path.name) and path.is_file()]
    recipe = keg / ".brew" / f"{keg.parent.name}.rb"
    formula = recipe.read_text("utf-8") if recipe.exists() else ""
    said = re.search(r"^\s*license (.+)$", formula, re.MULTILINE)
    words = "\n\n".join(path.read_text("utf-8", "replace") for path in texts)
    return with_text(Component(keg.parent.name, keg.name, said[1].strip('"') if said else "", words))


def _of_debian(paths: set[Path]) -> list[Component]:
    if not paths:
        return []
    owners = _packages_of(paths) if shutil.which("dpkg-query") else {}
    unknown = sorted(str(path) for path in paths if path not in owners)
    if unknown:
        raise UnknownOwner(f"No package of Debian, Ubuntu or Homebrew owns {', '.join(unknown)}.")
    found = []
    for name in sorted(set(owners.values())):
        asked = ["dpkg-query", "-W", "-f", "${source:Package} ${Version}", name]
        source, number = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        text = (DOCS / name.partition(":")[0] / "copyright").read_text("utf-8", "replace")
        found.append(Component(source, number, _short(text), text))
    return found


def _packages_of(paths: set[Path]) -> dict[Path, str]:
    """Path -> package, of those that a package owns."""
    # Since /usr was merged, a package may name a file by the place before or after.
    named: dict[str, Path] = {}
    for path in paths:
        short = str(path).removeprefix("/usr")
        named |= {short: path, "/usr" + short: path}
    asked = ["dpkg-query", "-S", *named]
    lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    told = (line.rpartition(": ") for line in lines if not line.startswith("diversion "))
    return {named[place]: owners.split(", ")[0] for owners, _, place in told if place in named}


def _short(copyright_file: str) -> str:
    named = re.findall(r"^License:[ \t]*(\S.*)$", copyright_file, flags=re.MULTILINE)
    return ", ".join(list(dict.fromkeys(named))[:3])
