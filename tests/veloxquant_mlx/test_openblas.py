"""The launcher starts itself once more with OpenBLAS in front, and only once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veloxquant_mlx import openblas

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json, os, sys
from pathlib import Path
from veloxquant_mlx import openblas

openblas._PLACES = (os.environ["TEST_PLACES"],)
with open(os.environ["TEST_STARTS"], "a") as starts:
    starts.write("started\\n")
openblas.ensure_openblas()
print(json.dumps({
    "arguments": sys.argv[1:],
    "preload": os.environ.get("LD_PRELOAD"),
    "switch": os.environ.get(openblas.SWITCH),
    "in front": "libopenblas" in Path("/proc/self/maps").read_text(),
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
        self.starts = folder / "starts"
        clean = {k: v for k, v in os.environ.items() if k not in (openblas.SWITCH, "LD_PRELOAD")}
        self.environment = clean | {
            "TEST_PLACES": library, "TEST_STARTS": str(self.starts), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.warnings = ""

    def run(self, *arguments: str, how: tuple[str, ...] = (), **environment: str) -> dict[str, Any]:
        self.starts.write_text("")
        done = subprocess.run(
            [sys.executable, *(how or (str(self.script),)), *arguments],
            env=self.environment | environment, cwd=self.script.parent, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        self.warnings = done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    @property
    def count(self) -> int:
        return len(self.starts.read_text().splitlines())


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(tmp_path, str(a_library(tmp_path)))


@linux
@pytest.mark.parametrize("how", [(), ("-m", "program"), ("-X", "dev", "program.py")])
def test_it_starts_itself_once_more_the_way_it_was_started(launch: Launch, how: tuple[str, ...]) -> None:
    told = launch.run("chat", "--prompt", "two words", how=how)
    assert launch.count == 2
    assert told["in front"] is True
    assert told["arguments"] == ["chat", "--prompt", "two words"]
    assert launch.warnings == ""


@linux
def test_programs_it_starts_inherit_neither(launch: Launch) -> None:
    told = launch.run()
    assert told["preload"] is None
    assert told["switch"] is None


@linux
def test_what_was_preloaded_before_stays(launch: Launch, tmp_path: Path) -> None:
    other = tmp_path / "libother.so"
    other.write_bytes(a_library(tmp_path).read_bytes())
    told = launch.run(LD_PRELOAD=str(other))
    assert launch.count == 2
    assert told["preload"] == str(other)


@linux
def test_the_switch_leaves_everything_as_it_is(launch: Launch) -> None:
    told = launch.run(**{openblas.SWITCH: "off"})
    assert launch.count == 1
    assert told["in front"] is False


@linux
def test_the_flag_leaves_everything_and_is_taken_away(launch: Launch) -> None:
    told = launch.run("chat", openblas.FLAG, "--json")
    assert launch.count == 1
    assert told["in front"] is False
    assert told["arguments"] == ["chat", "--json"]


@linux
def test_a_person_s_own_openblas_is_not_replaced(launch: Launch, tmp_path: Path) -> None:
    own = str(tmp_path / "libopenblas.so.0")
    told = launch.run(LD_PRELOAD=own)
    assert launch.count == 1
    assert told["preload"] == own


@linux
def test_without_openblas_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    launch = Launch(tmp_path, str(tmp_path / "nowhere" / "libopenblas.so.0"))
    told = launch.run("methods")
    assert launch.count == 1
    assert told["arguments"] == ["methods"]
    assert launch.warnings == openblas.HINT + "\n"


def test_the_hint_names_the_package_and_the_way_to_hide_it() -> None:
    assert "apt-get install libopenblas0-pthread" in openblas.HINT
    assert f"{openblas.SWITCH}=off" in openblas.HINT


def test_other_systems_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv(openblas.SWITCH, raising=False)
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("started again"))
    openblas.ensure_openblas()
    assert capfd.readouterr() == ("", "")
