"""OpenBLAS answers MLX's calls where the launcher put it in front, in the process it began as."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veloxquant_mlx import openblas

ROOT = Path(__file__).resolve().parents[2]
OURS = (openblas.SWITCH, openblas.WAIT, "LD_PRELOAD")

SCRIPT = """
import ctypes, json, os, sys
from pathlib import Path
from veloxquant_mlx import openblas

openblas._PLACES = (os.environ["TEST_PLACES"],)
if "TEST_PACKED" in os.environ:
    sys._MEIPASS = os.environ["TEST_PACKED"]
openblas.ensure_openblas()
answer = None
if "TEST_DEPENDANT" in os.environ:
    answer = ctypes.CDLL(os.environ["TEST_DEPENDANT"]).ask()
print(json.dumps({
    "arguments": sys.argv[1:],
    "preload": os.environ.get("LD_PRELOAD"),
    "wait": os.environ.get(openblas.WAIT),
    "loaded": sorted({line.split(None, 5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()
                      if "libopenblas" in line}),
    "answer": answer,
}))
"""

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems need no OpenBLAS")


def a_library(folder: Path) -> Path:
    """Something the linker takes, under OpenBLAS's name."""
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    real = next(name for name in mapped if "/libm.so" in name or "/libm-" in name)
    copy = folder / "libopenblas.so.0"
    copy.write_bytes(Path(real).read_bytes())
    return copy


class Launch:
    """A process that calls ``ensure_openblas`` and tells what it found."""

    def __init__(self, folder: Path, library: str) -> None:
        self.script = folder / "program.py"
        self.script.write_text(SCRIPT)
        clean = {
            k: v for k, v in os.environ.items() if k not in (openblas.SWITCH, openblas.WAIT, "LD_PRELOAD")
        }
        self.environment = clean | {"TEST_PLACES": library, "PYTHONPATH": str(ROOT)}
        self.warnings = ""

    def run(self, *arguments: str, **environment: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, str(self.script), *arguments],
            env=self.environment | environment, cwd=self.script.parent, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        self.warnings = done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return a_library(tmp_path)


@pytest.fixture
def launch(tmp_path: Path, library: Path) -> Launch:
    return Launch(tmp_path, str(library))


@linux
def test_it_is_loaded_and_nothing_else_changes(launch: Launch, library: Path) -> None:
    told = launch.run("chat", "--prompt", "two words")
    assert told["loaded"] == [str(library)]
    assert told["arguments"] == ["chat", "--prompt", "two words"]
    assert told["preload"] is None
    assert launch.warnings == ""


@linux
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_it_answers_before_what_a_library_brings_along(tmp_path: Path) -> None:
    """As MLX's library does: linked against a slow implementation of what OpenBLAS has too."""

    def compiled(name: str, source: str, *more: str) -> Path:
        code, made = tmp_path / f"{name}.c", tmp_path / name
        code.write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(made), str(code), *more], check=True)
        return made

    slow = compiled("libslow.so", "int which(void) { return 1; }")
    asking = compiled(
        "libasking.so", "int which(void); int ask(void) { return which(); }", str(slow), "-Wl,-rpath,$ORIGIN"
    )
    fast = compiled("libopenblas.so.0", "int which(void) { return 2; }")
    launch = Launch(tmp_path, str(fast))
    assert launch.run(TEST_DEPENDANT=str(asking))["answer"] == 2
    assert launch.run(TEST_DEPENDANT=str(asking), **{openblas.SWITCH: "off"})["answer"] == 1


@linux
def test_the_packaged_app_s_own_comes_first(launch: Launch, tmp_path: Path) -> None:
    packed = tmp_path / "app [1]"
    packed.mkdir()
    own = a_library(packed)
    assert launch.run(TEST_PACKED=str(packed))["loaded"] == [str(own)]


@linux
def test_its_threads_give_their_cores_back_soon_unless_told_otherwise(launch: Launch) -> None:
    assert launch.run()["wait"] == "18"
    assert launch.run(**{openblas.WAIT: "26"})["wait"] == "26"
    assert launch.run(**{openblas.SWITCH: "off"})["wait"] is None


@linux
def test_the_switch_leaves_everything_as_it_is(launch: Launch) -> None:
    assert launch.run(**{openblas.SWITCH: "off"})["loaded"] == []


@linux
def test_the_flag_leaves_everything_and_is_taken_away(launch: Launch) -> None:
    told = launch.run("chat", openblas.FLAG, "--json")
    assert told["loaded"] == []
    assert told["arguments"] == ["chat", "--json"]


@linux
def test_a_person_s_own_openblas_is_not_replaced(launch: Launch, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    own = str(a_library(folder))
    told = launch.run(LD_PRELOAD=own)
    assert told["loaded"] == [own]
    assert told["preload"] == own


@linux
def test_without_openblas_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    launch = Launch(tmp_path, str(tmp_path / "nowhere" / "libopenblas.so.0"))
    told = launch.run("methods")
    assert told["arguments"] == ["methods"]
    assert launch.warnings == openblas.HINT + "\n"


@linux
def test_a_broken_one_is_said_and_nothing_stops(tmp_path: Path) -> None:
    broken = tmp_path / "libopenblas.so.0"
    broken.write_bytes(b"no library")
    launch = Launch(tmp_path, str(broken))
    assert launch.run()["loaded"] == []
    assert launch.warnings.startswith("OpenBLAS can't be used (")


def test_the_hint_names_the_package_and_the_way_to_hide_it() -> None:
    assert "apt-get install libopenblas0-pthread" in openblas.HINT
    assert f"{openblas.SWITCH}=off" in openblas.HINT


def test_other_systems_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv(openblas.SWITCH, raising=False)
    monkeypatch.setattr(openblas, "find_openblas", lambda: pytest.fail("looked for"))
    openblas.ensure_openblas()
    assert capfd.readouterr() == ("", "")


@linux
def test_products_side_by_side_keep_to_one_core_each() -> None:
    libraries = openblas._libraries()
    assert libraries, "NumPy's wheel brings an OpenBLAS"
    before = [get() for get, _ in libraries]
    try:
        for _, put in libraries:
            put(2)
        with pytest.raises(KeyError), openblas.one_thread():
            assert [get() for get, _ in libraries] == [1] * len(libraries)
            raise KeyError
        assert [get() for get, _ in libraries] == [2] * len(libraries)
    finally:
        for (_, put), count in zip(libraries, before, strict=True):
            put(count)
