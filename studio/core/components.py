"""What the app is made of: every component with its version, its licence and the licence's text.

A packaged app carries the list in a file that its build wrote; elsewhere the list is read from what is
installed. No Qt and nothing heavy here.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

OURS = "veloxquant-studio"
LIST = "components.json"
"""The list's name in a packaged app."""

LICENCE_FILE = re.compile(r".*(licen[cs]e|copying|notice|authors)", re.IGNORECASE)
"""Names of files that hold a licence's words."""


@dataclass(frozen=True, slots=True)
class Component:
    """Something that is shipped, or installed, along with the app."""

    name: str
    version: str
    licence: str
    """In short, as its makers say it; empty where they don't."""
    text: str
    """The licence's words; empty where they did not put them in."""


def components() -> list[Component]:
    """The app itself, then every other component by name. Reads hundreds of files where it is not packed."""
    return sorted(_listed(), key=lambda one: (one.name != OURS, one.name.lower()))


def _listed() -> list[Component]:
    packed = getattr(sys, "_MEIPASS", None)
    if packed is not None:
        read = json.loads((Path(packed) / LIST).read_text(encoding="utf-8"))
        return [Component(**entry) for entry in read]
    return [described(found) for found in required().values()]


def to_json(listed: list[Component]) -> str:
    """The list as a packaged app carries it."""
    return json.dumps([asdict(one) for one in listed], indent=1, ensure_ascii=False) + "\n"


def required(root: str = OURS) -> dict[str, Distribution]:
    """Normalised name -> distribution of everything that ``root`` needs to run here, itself included.

    What is needed on other systems only, or missing here, is left out.
    """
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, frozenset[str]())]
    while waiting:
        name, extras = waiting.pop()
        if (_normal(name), extras) in asked:
            continue
        asked.add((_normal(name), extras))
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        found[_normal(name)] = here
        waiting.extend(_needs(here, extras))
    return dict(sorted(found.items()))


def _needs(here: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    from packaging.requirements import Requirement

    for line in here.requires or ():
        needed = Requirement(line)
        if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield needed.name, frozenset(needed.extras)


def described(here: Distribution) -> Component:
    """Name, version and licence of an installed distribution."""
    return Component(here.metadata["Name"], here.version, _licence(here), "\n\n".join(_texts(here)))


def _licence(here: Distribution) -> str:
    expression = _said(here, "License-Expression")
    if expression:
        return expression
    classified = [line.rpartition(" :: ")[2] for line in here.metadata.get_all("Classifier") or ()
                  if line.startswith("License :: ") and not line.endswith(":: OSI Approved")]  # fmt: skip
    said = _said(here, "License")
    # Some put the whole text there.
    short = said if said and "\n" not in said and len(said) < 80 else ""
    return short or ", ".join(classified)


def _said(here: Distribution, field: str) -> str:
    return next(iter(here.metadata.get_all(field) or ()), "").strip()


def _texts(here: Distribution) -> Iterator[str]:
    for file in sorted(here.files or (), key=str):
        named = LICENCE_FILE.match(file.name) or "licenses" in file.parts
        # A checkout that is installed where it lies lists its own top folder.
        if named and (len(file.parts) == 1 or any(part.endswith(".dist-info") for part in file.parts[:-1])):
            path = Path(str(here.locate_file(file)))
            if path.is_file():
                yield path.read_text(encoding="utf-8", errors="replace").strip()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
