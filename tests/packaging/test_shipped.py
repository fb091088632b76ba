"""Whose files are shipped is known, or the build stops."""

import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import PySide6
import pytest
import shipped

from studio.core.components import Component


def test_the_tools_of_this_environment_are_kept_out_and_what_is_needed_is_not() -> None:
    kept_out = set(shipped.foreign_packages())
    assert {"pytest", "hypothesis", "mypy"} <= kept_out
    assert not {"numpy", "mlx", "mlx_lm", "transformers", "PySide6", "studio", "yaml"} & kept_out


def test_owners_are_found_for_wheels_and_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "distribution", _stand_in(shipped.distribution))
    files = [
        ("numpy/__init__.py", np.__file__),
        ("PySide6/__init__.py", PySide6.__file__),
        ("abc.py", sys.modules["abc"].__file__ or ""),
    ]
    found = {one.name: one for one in shipped.components(files)}
    assert {"numpy", "PySide6_Essentials", "Python", "veloxquant-studio", "Inter"} <= found.keys()
    assert "mlx" not in found, "none of its files is among them"
    assert all(one.text for one in found.values())
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in found["PySide6_Essentials"].text
    assert "you may replace" in found["PySide6_Essentials"].text


def test_the_starter_model_is_a_component_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "distribution", _stand_in(shipped.distribution))
    folder = tmp_path / "SmolLM2"
    folder.mkdir()
    for name in ("SOURCE.md", "LICENSE", "config.json"):
        (folder / name).write_text(f"words of {name}")
    files = [(f"models/SmolLM2/{path.name}", str(path)) for path in folder.iterdir()]
    found = {one.name: one for one in shipped.components(files, folder)}
    assert found["SmolLM2"].text == "words of SOURCE.md\n\nwords of LICENSE"


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="asks Debian's package list")
def test_a_system_library_belongs_to_its_package() -> None:
    library = Path("/bin/sh")
    found = shipped._of_system({library.resolve()})
    assert [one.name for one in found] == ["dash"] or len(found) == 1
    assert found[0].version and found[0].text


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="asks Debian's package list")
def test_a_file_of_nobody_stops_the_build(tmp_path: Path) -> None:
    stray = tmp_path / "libstray.so"
    stray.write_bytes(b"")
    with pytest.raises(shipped.UnknownOwner, match=r"libstray\.so"):
        shipped._of_system({stray})


def test_a_library_of_homebrew_belongs_to_its_keg(tmp_path: Path) -> None:
    keg = tmp_path / "Cellar" / "openssl@3" / "3.5.1"
    library = keg / "lib" / "libssl.3.dylib"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    (keg / "LICENSE.txt").write_text("its words")
    (keg / ".brew").mkdir()
    (keg / ".brew" / "openssl@3.rb").write_text('class OpensslAT3\n  license "Apache-2.0"\nend\n')
    assert shipped._of_system({library}) == [Component("openssl@3", "3.5.1", "Apache-2.0", "its words")]


def test_a_licence_that_brings_no_text_gets_the_standard_one_or_stops_the_build() -> None:
    apache = shipped.with_text(Component("a", "1", "Apache-2.0", ""))
    assert "Apache License" in apache.text
    with pytest.raises(shipped.UnknownOwner, match="b brings no licence text"):
        shipped.with_text(Component("b", "1", "Homemade", ""))
    own = Component("c", "1", "Apache-2.0", "its own words")
    assert shipped.with_text(own) is own


def _stand_in(real):  # type: ignore[no-untyped-def]
    """PyInstaller's licence is listed too; without the packaging extra another package stands in for it."""

    def found(name: str):  # type: ignore[no-untyped-def]
        try:
            return real(name)
        except PackageNotFoundError:
            return real("pytest")

    return found
