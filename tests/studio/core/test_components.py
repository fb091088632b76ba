"""Everyone whose work is shipped is listed with a licence."""

import json
import sys
from pathlib import Path

import pytest

from studio.core.components import LIST, OURS, Component, components, required, to_json


def test_what_the_app_needs_is_found_through_its_requirements() -> None:
    found = required()
    assert {OURS, "mlx", "mlx-lm", "transformers", "numpy", "pyside6-essentials", "shiboken6"} <= found.keys()
    assert not {"pytest", "ruff", "pyinstaller", "hypothesis"} & found.keys(), "its tools are not needed"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an extra of Linux")
def test_what_extras_bring_is_found_too() -> None:
    assert "mlx-cpu" in required()


def test_the_app_comes_first_and_all_name_a_licence() -> None:
    listed = components()
    assert listed[0].name == OURS
    names = [one.name.lower() for one in listed[1:]]
    assert names == sorted(names) and len(names) > 20
    assert [one.name for one in listed if not one.licence] == []
    by_name = {one.name: one for one in listed}
    assert by_name["numpy"].licence.startswith("BSD-3-Clause") and "Redistribution" in by_name["numpy"].text
    assert by_name["mlx"].licence == "MIT" and "Permission is hereby granted" in by_name["mlx"].text


def test_a_packaged_app_reads_the_list_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Component("zlib", "1.3", "Zlib", "wörds"), Component(OURS, "1", "Apache-2.0", "text")]
    (tmp_path / LIST).write_text(to_json(given), encoding="utf-8")
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    assert components() == [given[1], given[0]]
    assert json.loads(to_json(given))[0]["name"] == "zlib"
