"""Build the wheel, check it, and install it into an environment of its own that has nothing else of ours.

python3 packaging/dev.py run python packaging/wheel.py
"""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from recipe import BUILD, COMMAND, copy_source, data_files, version

WHEELS = BUILD / "wheel"


def main() -> int:
    """Build, check, install, start both commands."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    wheel = build()
    missing = lacking(wheel)
    if missing:
        print(f"wheel: {wheel.name} lacks {', '.join(missing)}", file=sys.stderr)
        return 1
    said = installed_commands(wheel)
    for command, words in said.items():
        print(f"{command} --version: {words}")
    return 0 if set(said.values()) == {version()} else 1


def build() -> Path:
    """Source archive and wheel, both found well-formed by twine."""
    # From a copy: a build in the tree leaves its own folder, whose old files would get into the next wheel.
    source = WHEELS / "source"
    copy_source(source)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(WHEELS), str(source)], check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    made = sorted(str(path) for path in WHEELS.iterdir() if path.is_file())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], check=True)
    return next(WHEELS.glob("*.whl"))


def lacking(wheel: Path) -> list[str]:
    """Files that must be in the wheel and are not."""
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
    needed = {f"{folder}/{Path(source).name}" for source, folder in data_files()}
    return sorted((needed | {"veloxquant_mlx/py.typed", "studio/__main__.py"}) - there)


def installed_commands(wheel: Path) -> dict[str, str]:
    """What both commands call their version, from a fresh environment with the wheel in it.

    The dependencies are those of this environment: fetching them all again would prove nothing more.
    """
    home = WHEELS / "environment"
    venv.create(home, with_pip=False)
    site = next(home.glob("lib/python*/site-packages"))
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
            "--prefix", str(home), "--ignore-installed", str(wheel),
        ],
        check=True,
    )  # fmt: skip
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(here + "\n")
    own = str(WHEELS / "home")
    environment = {"HOME": own, "VELOXQUANT_HOME": own, "QT_QPA_PLATFORM": "offscreen"}
    said = {}
    for command in ("veloxquant", COMMAND):
        done = subprocess.run(
            [str(home / "bin" / command), "--version"], env=environment, cwd=WHEELS, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        said[command] = done.stdout.strip()
    subprocess.run([str(home / "bin" / COMMAND), "--first-window"], env=environment, cwd=WHEELS, check=True)
    return said


if __name__ == "__main__":
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    sys.exit(main())
