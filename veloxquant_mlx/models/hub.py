"""Fetching a model from the Hugging Face Hub: one commit of it, file by file, each checked.

huggingface_hub tells what a repository holds and speaks with the server; files are written here, because
there a download that stops begins its file anew. What has come stays until it is whole or forgotten.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .. import paths
from ..atomic import write_atomic
from ..errors import ModelError
from ..progress import Progress, silent
from .disk import alone, need_space, readable, writing

HUB_NOTE = "download.json"
"""Says in a downloaded folder which commit it is and what each file must be."""

_WANTED = (
    "model*.safetensors", "*.json", "*.jinja", "*.model", "*.tiktoken", "vocab.txt", "merges.txt", "LICENSE*",
)  # fmt: skip
"""What is fetched, of the repository's top level: never code or pickles."""
_SOME_WEIGHTS = "model*.safetensors"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?\Z", re.ASCII)
_TIMEOUT_SECONDS = 20
_TRIES = 3
"""So often in a row a connection may break without a new byte."""
_HASHED = 4 << 20


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a repository."""

    name: str
    size: int
    """Bytes."""
    digest: str
    """SHA-256 of a large file (64 hex digits), git's SHA-1 of any other (40)."""


@dataclass(frozen=True, slots=True)
class HubModel:
    """What is to be fetched."""

    repository: str
    commit: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def done(self, folder: Path) -> int:
        """Bytes of them in ``folder``, those of unfinished files included."""
        return sum(min(file.size, _length(folder, file)) for file in self.files)


def repository_of(text: str) -> str:
    """The repository that a person names: ``owner/name``, or the address of its page.

    Raises ModelError.
    """
    name = text.strip()
    if "://" in name:
        name = "/".join(urlsplit(name).path.strip("/").split("/")[:2])
    if not _NAME.match(name) or ".." in name or "--" in name:
        raise ModelError(f"'{text.strip()}' names no repository: write it as owner/name.")
    return name


def download(name: str, progress: Progress | None = None, *, endpoint: str | None = None) -> Path:
    """Fetch a model into this app's models and return its folder; goes on where an earlier call stopped.

    Args:
        name: see ``repository_of``.
        endpoint: address of another server of the same protocol; None is HF_ENDPOINT or the Hub itself.

    Raises ModelError in one sentence, and Cancelled from ``progress``; what has come is kept then, until
    ``forget``. Any number of processes may ask for the same model: one works, the others wait.
    """
    report = progress or silent
    repository = repository_of(name)
    folder, work = paths.models_dir() / repository, _work(repository)
    if _is_whole(folder):
        return folder
    if folder.exists():
        raise ModelError(f"{folder} is there already and is no whole download: move it away and try again.")
    with writing(work), alone(work, report):
        if _is_whole(folder):
            return folder
        report(None, f"Asking for {repository}")
        model = _read_note(work) or _ask(repository, endpoint)
        write_atomic(work / HUB_NOTE, json.dumps(asdict(model), indent=1).encode())
        need_space(work, model.size - model.done(work))
        for file in model.files:
            _fetch(model, file, work, report, endpoint)
        os.replace(work, folder)
    report(1.0, f"{repository} is here")
    return folder


def unfinished() -> list[tuple[HubModel, int]]:
    """Downloads that were stopped and not forgotten, each with the bytes that have come."""
    notes = sorted(paths.models_dir().glob(f"*/.*.download/{HUB_NOTE}"))
    notes += sorted(paths.models_dir().glob(f".*.download/{HUB_NOTE}"))
    found = [(model, note.parent) for note in notes if (model := _read_note(note.parent))]
    return [(model, model.done(folder)) for model, folder in found]


def forget(name: str) -> None:
    """Remove what has come of a download that was stopped. Raises ModelError, also while one is running."""
    repository = repository_of(name)

    def refuse(_: float | None, __: str) -> None:
        raise ModelError(f"{repository} is being fetched by another window: stop it there first.")

    work = _work(repository)
    if work.is_dir():
        with writing(work), alone(work, refuse):
            shutil.rmtree(work)


def _work(repository: str) -> Path:
    folder = paths.models_dir() / repository
    return folder.with_name(f".{folder.name}.download")


def _read_note(folder: Path) -> HubModel | None:
    """What a folder was to become; None where that can't be read any more."""
    try:
        kept = json.loads((folder / HUB_NOTE).read_text(encoding="utf-8"))
        files = tuple(HubFile(**file) for file in kept["files"])
        return HubModel(str(kept["repository"]), str(kept["commit"]), files)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_whole(folder: Path) -> bool:
    model = _read_note(folder)
    return model is not None and all(
        (folder / file.name).is_file() and (folder / file.name).stat().st_size == file.size
        for file in model.files
    )


def _ask(repository: str, endpoint: str | None) -> HubModel:
    """What the server has under this name, as of now."""
    from huggingface_hub import HfApi

    with _speaking(repository):
        info = HfApi(endpoint=endpoint).model_info(repository, files_metadata=True, timeout=_TIMEOUT_SECONDS)
    files = tuple(_file(sibling) for sibling in info.siblings or () if _is_wanted(sibling.rfilename))
    if not any(fnmatch(file.name, _SOME_WEIGHTS) for file in files):
        raise ModelError(
            f"{repository} holds no model*.safetensors at its top: look for a version of it for MLX, or in "
            "safetensors."
        )
    # Small ones first: what can't be used is seen before the weights come.
    return HubModel(repository, str(info.sha), tuple(sorted(files, key=lambda file: file.size)))


def _is_wanted(name: str) -> bool:
    return "/" not in name and name != HUB_NOTE and any(fnmatch(name, pattern) for pattern in _WANTED)


def _file(sibling: Any) -> HubFile:
    digest = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
    return HubFile(sibling.rfilename, int(sibling.size), str(digest))


def _part(folder: Path, file: HubFile) -> Path:
    return folder / f"{file.name}.part"


def _length(folder: Path, file: HubFile) -> int:
    for path in (folder / file.name, _part(folder, file)):
        if path.is_file():
            return path.stat().st_size
    return 0


def _fetch(model: HubModel, file: HubFile, folder: Path, report: Progress, endpoint: str | None) -> None:
    """Have one file whole and checked in ``folder``, from the byte where it stopped."""
    if (folder / file.name).is_file():
        return
    before = model.done(folder) - min(file.size, _length(folder, file))

    def tell(came: int) -> None:
        done = before + came
        words = f"Fetching {model.repository}, {readable(done)} of {readable(model.size)}"
        report(done / max(1, model.size), words)

    part = _part(folder, file)
    if part.is_file() and part.stat().st_size > file.size:
        part.unlink()
    tell(_length(folder, file))
    _append(model, file, part, tell, endpoint)
    _check(model, file, part, tell)
    os.replace(part, folder / file.name)


def _append(
    model: HubModel, file: HubFile, part: Path, tell: Callable[[int], None], endpoint: str | None
) -> None:
    """Let ``part`` grow until it has the file's size, over as many connections as it takes."""
    import httpx2
    from huggingface_hub import hf_hub_url

    url = hf_hub_url(model.repository, file.name, revision=model.commit, endpoint=endpoint)
    with part.open("ab") as target:
        tries = 0
        while (have := target.tell()) < file.size:
            broken: Exception | None = None
            try:
                with _speaking(model.repository):
                    _stream(url, file, target, tell)
            except ModelError as error:
                if not isinstance(error.__cause__, httpx2.TransportError):
                    raise
                broken = error
            tries = 0 if target.tell() > have else tries + 1
            if tries == _TRIES:
                raise broken or ModelError(
                    f"The server ends {file.name} of {model.repository} too early: try again later."
                )
        target.flush()
        os.fsync(target.fileno())


def _stream(url: str, file: HubFile, target: Any, tell: Callable[[int], None]) -> None:
    from huggingface_hub import get_session
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

    have = target.tell()
    # Compressed answers have other lengths, and ranges of them are no ranges of the file.
    headers = build_hf_headers() | {"Accept-Encoding": "identity", "Range": f"bytes={have}-"}
    with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_SECONDS) as response:
        hf_raise_for_status(response)
        if response.status_code != 206 and have:
            # The server knows no ranges and begins anew.
            target.truncate(0)
            target.seek(0)
        for data in response.iter_raw():
            target.write(data[: file.size - target.tell()])
            tell(target.tell())


def _check(model: HubModel, file: HubFile, part: Path, tell: Callable[[int], None]) -> None:
    """Compare a whole file with what the repository says of it; one that differs is removed."""
    digest = hashlib.sha256() if len(file.digest) == 64 else hashlib.sha1(b"blob %d\0" % file.size)
    with part.open("rb") as handle:
        while data := handle.read(_HASHED):
            digest.update(data)
            tell(file.size)
    if digest.hexdigest() != file.digest:
        part.unlink()
        raise ModelError(f"{file.name} of {model.repository} arrived damaged and was removed: try again.")


@contextmanager
def _speaking(repository: str) -> Iterator[None]:
    """What goes wrong between here and the server, in one sentence."""
    import httpx2
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise ModelError(
            "HF_HUB_OFFLINE is set, so nothing is fetched: unset it and start again, or open a model that is "
            "on this machine."
        ) from error
    except GatedRepoError as error:
        raise ModelError(
            f"{repository} is given to those who accept its terms: accept them on its page, then log in with "
            "'hf auth login'."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"There is no model {repository} on the Hub, or it is private: check how it is written."
        ) from error
    except HfHubHTTPError as error:
        code = error.response.status_code
        raise ModelError(
            f"The Hub answered {code} when asked for {repository}: try again later; what has come is kept."
        ) from error
    except httpx2.TransportError as error:
        raise ModelError(
            "The Hugging Face Hub can't be reached: check the network connection and try again; what has "
            "come is kept."
        ) from error
