"""A crash leaves a log, and the next start finds it once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from studio.core.crashes import LAST, find_crash, recorded
from veloxquant_mlx.paths import log_dir

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import ctypes, os, sys
from studio.core.crashes import recorded
with recorded(os.getpid()):
    print("running", flush=True)
    def deep():
        {ends}
    deep()
"""


def run(ends: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ends=ends)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "running\n", done.stderr
    return done.returncode


def test_an_app_that_ends_as_it_should_leaves_nothing() -> None:
    assert run("pass") == 0
    assert find_crash() is None
    assert list(log_dir().iterdir()) == []


def test_native_code_s_fault_tells_where_it_was() -> None:
    assert run("ctypes.string_at(1)") == -signal.SIGSEGV
    crash = find_crash()
    assert crash is not None and crash.has_trace
    assert "Segmentation fault" in crash.text and "in deep" in crash.text
    assert crash.path == log_dir() / LAST and crash.path.read_text() == crash.text
    assert "veloxquant-studio: " in crash.text and "platform: " in crash.text
    assert find_crash() is None, "told once"


def test_an_error_that_nobody_caught_is_kept_with_its_trace() -> None:
    assert run("raise RuntimeError('the reason')") == 1
    crash = find_crash()
    assert crash is not None and crash.has_trace
    assert "RuntimeError: the reason" in crash.text and "in deep" in crash.text


def test_being_ended_from_outside_is_told_apart() -> None:
    assert run("os.kill(os.getpid(), 9)") == -signal.SIGKILL
    crash = find_crash()
    assert crash is not None and not crash.has_trace


@pytest.mark.parametrize("ends", ["sys.exit(3)", "raise KeyboardInterrupt"])
def test_ways_to_leave_are_no_crash(ends: str) -> None:
    run(ends)
    assert find_crash() is None


def test_another_app_that_runs_is_no_crash() -> None:
    with recorded(os.getpid()):
        assert find_crash() is None
        assert len(list(log_dir().glob("running-*"))) == 1
    assert find_crash() is None


def test_the_newest_of_several_is_told_and_the_others_go() -> None:
    log_dir().mkdir(parents=True)
    for number in (1, 2):
        file = log_dir() / f"running-{number}.log"
        file.write_text(f"crash {number}")
        os.utime(file, (number, number))
    crash = find_crash()
    assert crash is not None and crash.text.endswith("crash 2")
    assert [path.name for path in log_dir().iterdir()] == [LAST]


def test_a_folder_that_can_t_be_written_stops_nobody(home: Path) -> None:
    (home / "logs").write_text("no folder")
    with recorded(1):
        pass
    assert find_crash() is None
