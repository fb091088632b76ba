"""Build the app once more, from a copy of the source in another folder, and compare the two.

    python3 packaging/dev.py run python packaging/again.py

Needs ``build/files.txt`` of the first build. Names every file that differs, and ends with 1 if one does.
"""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from recipe import BUILD, copy_source

LISTED = "files.txt"
PLACE = BUILD / "again" / "another place"


def main() -> int:
    """Copy, build, compare."""
    first = (BUILD / LISTED).read_text(encoding="utf-8")
    shutil.rmtree(PLACE.parent, ignore_errors=True)
    copy_source(PLACE)
    subprocess.run([sys.executable, str(PLACE / "packaging" / "bundle.py"), *sys.argv[1:]], check=True)
    different = differing(first, (PLACE / "build" / LISTED).read_text(encoding="utf-8"))
    for place in different:
        print(f"again: {place} differs", file=sys.stderr)
    print(f"again: {len(first.splitlines())} files, {len(different)} differ")
    return 1 if different else 0


def differing(first: str, second: str) -> list[str]:
    """Places that two lists tell differently, or that only one of them has."""
    return sorted({line.split(" ", 2)[2] for line in set(first.splitlines()) ^ set(second.splitlines())})


if __name__ == "__main__":
    sys.exit(main())
