"""Kills at random moments; ``python -m tests.benchmarks.kills`` does it fifty times."""

from pathlib import Path

from tests.studio.core.killing import kill_once


def test_a_kill_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    """All in one file: each start also takes over what the kill before left."""
    for seed in range(4):
        kill_once(tmp_path, seed)
