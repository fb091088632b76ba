"""Kills a scripted chat at random moments and checks that nothing told as saved is missing.

    python -m tests.benchmarks.kills [kills]

Prints how many tokens and messages had been told when the kills came. Ends with an AssertionError otherwise.
"""

import sys
import tempfile
from pathlib import Path

from tests.studio.core.killing import kill_once


def main() -> None:
    """Fifty kills by default, all in one file."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        told = [kill_once(Path(folder), seed) for seed in range(kills)]
    print(f"{kills} kills after {min(told)} to {max(told)} records, {sum(told):,} in all: none missing")


if __name__ == "__main__":
    main()
