"""Finding the models a person already has. Loads no weight and imports neither mlx_lm nor transformers
until a model's cache slots are counted."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import paths
from .describe import ModelInfo, describe, look

__all__ = ["ModelInfo", "describe", "find_models"]

_DEEPEST = 3
"""Levels below an opened folder that are searched."""


def find_models(extra: Sequence[Path] = ()) -> list[ModelInfo]:
    """Every model in the usual places and in ``extra`` (model folders, .gguf files or folders of either).

    This app's own come first, then ``extra``, then the other programs'. A model that can't be used is
    listed with its ``problem``. Never raises for what it finds on disk.
    """
    packed = paths.packed_models_dir()
    places = [
        *((path, "this app", _own_name(path)) for path in _below(paths.models_dir(), 2)),
        *((path, "this app", None) for path in (_below(packed, 1) if packed else ())),
        *((path, "opened", None) for given in extra for path in _opened(Path(given).expanduser())),
        *((path, "Hugging Face cache", name) for path, name in _hub()),
        *((path, "LM Studio", None) for folder in _lm_studio() for path in _below(folder, _DEEPEST)),
        *((path, "oMLX", None) for path in _below(Path.home() / ".omlx" / "models", _DEEPEST)),
    ]
    found: dict[Path, ModelInfo] = {}
    for path, source, name in places:
        absolute = path.absolute()
        if absolute not in found:
            found[absolute] = look(absolute, source, name)
    return list(found.values())


def _own_name(path: Path) -> str | None:
    """A downloaded model keeps its owner's name in front."""
    inside = path.relative_to(paths.models_dir())
    return inside.as_posix() if len(inside.parts) > 1 and path.suffix != ".gguf" else None


def hub_folder() -> Path:
    """The Hugging Face hub cache, as its own library would choose it."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if moved := os.environ.get(variable):
            return Path(moved).expanduser()
    if moved := os.environ.get("HF_HOME"):
        return Path(moved).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def _hub() -> Iterator[tuple[Path, str]]:
    """One snapshot of each model repository: the one ``main`` points at, else the newest."""
    for repository in _folders(hub_folder()):
        if not repository.name.startswith("models--"):
            continue
        snapshots = _folders(repository / "snapshots")
        if not snapshots:
            continue
        try:
            main = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            main = ""
        newest = max(snapshots, key=lambda path: path.stat().st_mtime)
        snapshot = next((path for path in snapshots if path.name == main), newest)
        name = repository.name.removeprefix("models--").replace("--", "/")
        for path in _below(snapshot, 1):
            yield path, f"{name}/{path.name}" if path.suffix == ".gguf" else name


def _lm_studio() -> tuple[Path, Path]:
    return Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"


def _opened(path: Path) -> Iterator[Path]:
    """What a person pointed at is described even when nothing in it looks like a model."""
    inside = list(_below(path, _DEEPEST))
    yield from inside or [path]


def _below(path: Path, depth: int) -> Iterator[Path]:
    """Model folders and GGUF files at most ``depth`` levels below ``path``; names with a dot are left out."""
    if path.is_file():
        if path.suffix == ".gguf":
            yield path
        return
    try:
        inside = sorted(path.iterdir())
    except OSError:
        return
    is_model = any(p.name == "config.json" or _is_weights(p) for p in inside)
    if is_model:
        yield path
    for child in inside:
        # A vision model's projector lies beside the model in a file of its own and is no model.
        if child.suffix == ".gguf" and child.is_file() and not child.name.startswith((".", "mmproj")):
            yield child
    if depth > 0 and not is_model:
        for child in inside:
            if child.is_dir() and not child.name.startswith("."):
                yield from _below(child, depth - 1)


def _is_weights(path: Path) -> bool:
    return path.name.startswith(("model", "pytorch_model")) and path.suffix in (".safetensors", ".bin")


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(p for p in path.iterdir() if p.is_dir())
    except OSError:
        return []
