"""Set up this checkout and run something in it: the studio, the command line or the tests.

    python3 packaging/dev.py studio [ARGUMENTS]   open the studio; --model starter fetches the small model
    python3 packaging/dev.py test                 run every check: ruff, mypy, the app's self-test, pytest,
                                                  and the packaged app and the wheel, built and proven
    python3 packaging/dev.py run COMMAND          run a command inside the environment

Works with nothing but Python 3.11 to 3.13: makes ``.venv``, installs the project into it and, on
Debian and Ubuntu, the system libraries, as root or through sudo; otherwise it names them in one line.
"""

import ctypes.util
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
SUPPORTED = ((3, 11), (3, 12), (3, 13))
STAMP = VENV / "installed.sha256"

# What a plain Debian lacks: Qt's xcb platform, fonts to draw with, and a fast BLAS for MLX.
RUN_PACKAGES = (
    "libopenblas0-pthread", "libegl1", "libgl1", "libfontconfig1", "libdbus-1-3", "libxkbcommon-x11-0",
    "libxcb-cursor0", "libxcb-icccm4", "libxcb-image0", "libxcb-keysyms1", "libxcb-randr0",
    "libxcb-render-util0", "libxcb-shape0", "libxcb-xinerama0", "libglib2.0-0",
)  # fmt: skip
TEST_PACKAGES = ("xvfb", "xauth", "binutils", "desktop-file-utils", "appstream")


def main() -> int:
    """Set up, then do what the first argument says."""
    words = sys.argv[1:]
    if not words or words[0] not in ("studio", "test", "run"):
        print(__doc__)
        return 2
    python = find_python()
    system_packages([*RUN_PACKAGES, *(TEST_PACKAGES if words[0] == "test" else ())])
    install(python)
    commands = {
        "studio": [[sys_python(), "-m", "studio", *words[1:]]],
        "run": [words[1:]],
        "test": checks(),
    }[words[0]]
    environment = os.environ | {"PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    for command in commands:
        print("+", " ".join(command), flush=True)
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code:
            return code
    return 0


def sys_python() -> str:
    """The environment's Python."""
    return str(VENV / "bin" / "python")


def checks() -> list[list[str]]:
    """Style, types, the app used once from end to end, its packaged form built and proven, and the tests."""
    python = sys_python()
    self_test = [python, "-m", "studio", "--self-test", str(ROOT / "build" / "self-test")]
    if sys.platform.startswith("linux") and shutil.which("xvfb-run"):
        self_test = ["xvfb-run", "-a", "-s", "-screen 0 1280x800x24", *self_test]
    return [
        [python, "-m", "ruff", "check", "."],
        [python, "-m", "ruff", "format", "--check", "."],
        [python, "-m", "mypy"],
        self_test,
        [python, "packaging/bundle.py"],
        [python, "packaging/prove.py"],
        [python, "packaging/wheel.py"],
        [python, "-m", "pytest"],
    ]


def find_python() -> str:
    """A supported Python: this one, or another on the PATH; ends with one sentence where there is none."""
    if sys.version_info[:2] in SUPPORTED:
        return sys.executable
    for major, minor in reversed(SUPPORTED):
        found = shutil.which(f"python{major}.{minor}")
        if found:
            return found
    sys.exit(
        f"VeloxQuant Studio needs Python 3.11, 3.12 or 3.13; this is {sys.version.split()[0]}. "
        "Install one ('sudo apt-get install python3', or 'brew install python@3.12' on macOS) and try again."
    )


def system_packages(wanted: list[str]) -> None:
    """Install missing Debian packages, or say in one line how to."""
    if not sys.platform.startswith("linux") or not shutil.which("dpkg-query"):
        if sys.platform.startswith("linux") and not ctypes.util.find_library("xcb-cursor"):
            print(
                "Qt needs your system's xcb-cursor and xkbcommon-x11 libraries; MLX is slow without OpenBLAS."
            )
        return
    missing = [name for name in wanted if not _has_package(name)]
    if not _can_make_environments():
        missing.append(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")
    if not missing:
        return
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    by_hand = "sudo apt-get install " + " ".join(missing)
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        print(f"Please run once: {by_hand}", file=sys.stderr)
        return
    print(f"Installing system libraries: {' '.join(missing)}", flush=True)
    quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
    subprocess.run([*prefix, "apt-get", "update", "-qq"], check=False, **quiet)  # type: ignore[call-overload]
    done = subprocess.run(  # type: ignore[call-overload]
        [*prefix, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
        check=False,
        **quiet,
    )
    if done.returncode:
        print(f"That did not work; please run: {by_hand}", file=sys.stderr)


def _has_package(name: str) -> bool:
    # Debian renamed some libraries for 64-bit time; either name serves.
    asked = ["dpkg-query", "-W", "-f", "${Status} ", name, f"{name}t64"]
    return "ok installed" in subprocess.run(asked, capture_output=True, text=True, check=False).stdout


def _can_make_environments() -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", "import ensurepip"], capture_output=True, check=False
        ).returncode
        == 0
    )


def install(python: str) -> None:
    """Make ``.venv`` and install the project with its tools, when pyproject.toml changed."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + python.encode()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    if not Path(sys_python()).exists():
        print("Making .venv", flush=True)
        if subprocess.run([python, "-m", "venv", str(VENV)], check=False).returncode:
            shutil.rmtree(VENV, ignore_errors=True)
            sys.exit(
                "Python could not make .venv; install its venv module (python3-venv on Debian) and try again."
            )
    print("Installing the project and what it needs (about 600 MB the first time)", flush=True)
    pip = [sys_python(), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if subprocess.run([*pip, "-e", f"{ROOT}[dev,packaging]"], check=False).returncode:
        sys.exit("pip could not install the project; its last lines say why. Run the command again to go on.")
    STAMP.write_text(wanted)


if __name__ == "__main__":
    sys.exit(main())
