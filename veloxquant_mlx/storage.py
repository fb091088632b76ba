"""Caches in a file: one safetensors file that says what it is, written whole or not at all.

Everything in a file that is read back is checked before it is used: the header before MLX sees it, the
digest of names, shapes, settings and content, the model, and every array against its slot.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList

from .atomic import atomic_file
from .builder import KVCacheBuilder
from .cache.dump import Dump, dump_attributes, prefixed, restore_attributes, taken, under
from .cache.slot import SlotCache
from .config import KVCacheConfig
from .errors import StorageError, VeloxQuantError
from .models.load import LoadedModel
from .models.weights import read_header
from .prompt import Turn

FORMAT = 2
"""Rises when a file of before could be misread."""
_KEY = "veloxquant"
_MOST_ROWS = 1 << 31


@dataclass(frozen=True, slots=True)
class SavedCache:
    """What a file held, ready to be gone on with."""

    caches: list[Any]
    config: KVCacheConfig
    tokens: list[int]
    """What the caches hold, in order."""
    turns: tuple[Turn, ...]
    """The conversation, as far as it was given."""


def save(
    path: Path,
    caches: Sequence[Any],
    *,
    model: LoadedModel,
    config: KVCacheConfig,
    tokens: Sequence[int],
    turns: Sequence[Turn] = (),
) -> None:
    """Write a cache list to one file, in one step: a file that was there stays until the new one is whole.

    Args:
        caches: made for ``model`` by ``KVCacheBuilder.for_model`` with ``config``.
        tokens: what they hold, in order. turns: the conversation they come from; kept in plain text.

    Raises StorageError in one sentence.
    """
    arrays: dict[str, mx.array] = {"tokens": mx.array(list(tokens), dtype=mx.uint32)}
    slots = []
    for index, slot in enumerate(caches):
        held, facts = _dump(slot)
        arrays |= prefixed(str(index), held)
        slots.append({"class": type(slot).__name__, "facts": facts})
    about: dict[str, Any] = {
        "format": FORMAT,
        "versions": {name: version(name) for name in ("veloxquant-studio", "mlx", "mlx-lm")},
        "model": {"name": model.info.name, "fingerprint": model.fingerprint, "compute": model.compute},
        "config": config.as_dict(),
        "turns": [list(turn) for turn in turns],
        "slots": slots,
    }
    mx.eval(list(arrays.values()))
    metadata = {_KEY: json.dumps(about), "digest": _digest(about, arrays)}
    try:
        with atomic_file(path) as file:
            # Given a path instead, MLX would not notice a full disk.
            mx.save_safetensors(file, arrays, metadata)
    except OSError as error:
        raise StorageError(
            f"The cache can't be written to {path.name} ({error.strerror or error}): choose another place."
        ) from error


def load(path: Path, model: LoadedModel) -> SavedCache:
    """Read a cache list back, for the model that made it.

    The next logits are those of the saved list, bit for bit. Raises StorageError in one sentence for a
    file that is cut, damaged, edited, no saved cache, another version's or another model's.
    """
    about, digest = _about(path)
    _require_model(path, about, model)
    damaged = StorageError(f"{path.name} is damaged: the conversation has to be read again.")
    try:
        arrays: dict[str, mx.array] = mx.load(str(path), format="safetensors")  # type: ignore[assignment]
        mx.eval(list(arrays.values()))
    except (RuntimeError, ValueError, OSError) as error:
        raise damaged from error
    if _digest(about, arrays) != digest:
        raise damaged
    try:
        config = KVCacheConfig(**about["config"])
        caches = KVCacheBuilder.for_model(model.model, config)
        for index, (slot, saved) in enumerate(zip(caches, about["slots"], strict=True)):
            if type(slot).__name__ != saved["class"]:
                raise ValueError(saved["class"])
            _restore(slot, under(str(index), arrays), saved["facts"])
        tokens: list[int] = taken(arrays, "tokens", (arrays["tokens"].size,), mx.uint32).tolist()  # type: ignore[assignment]
        turns = tuple((str(role), str(text)) for role, text in about["turns"])
        if {slot.offset for slot in caches if hasattr(slot, "offset")} - {len(tokens)}:
            raise ValueError("tokens")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise StorageError(
            f"{path.name} doesn't fit this version of the app or its model "
            f"({_reason(error)}): the conversation has to be read again."
        ) from error
    return SavedCache(caches, config, tokens, turns)


def _dump(slot: Any) -> Dump:
    # A list that holds one of our caches is a SlotCache too, and is written part by part.
    if not isinstance(slot, CacheList):
        return slot.dump() if isinstance(slot, SlotCache) else dump_attributes(slot)
    arrays: dict[str, mx.array] = {}
    facts: dict[str, Any] = {}
    for index, part in enumerate(slot.caches):
        held, facts[str(index)] = _dump(part)
        arrays |= prefixed(str(index), held)
    return arrays, facts


def _restore(slot: Any, arrays: Mapping[str, mx.array], facts: Mapping[str, Any]) -> None:
    if isinstance(slot, CacheList):
        for index, part in enumerate(slot.caches):
            _restore(part, under(str(index), arrays), facts[str(index)])
    elif isinstance(slot, SlotCache):
        slot.restore(arrays, facts)
    else:
        restore_attributes(slot, arrays, facts)


def _about(path: Path) -> tuple[dict[str, Any], str]:
    """What the file says of itself, and its digest; MLX has not seen the file yet."""
    try:
        tensors, metadata = read_header(path)
        if any(side >= _MOST_ROWS for tensor in tensors for side in tensor.shape):
            raise ValueError("shape")
    except OSError as error:
        raise StorageError(f"{path.name} can't be read ({error.strerror or error}).") from error
    except ValueError as error:
        raise StorageError(
            f"{path.name} is no saved cache, or is cut or damaged: the conversation has to be read again."
        ) from error
    try:
        about, digest = json.loads(metadata[_KEY]), metadata["digest"]
        written = about["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{path.name} is no cache saved by this app.") from error
    if written != FORMAT:
        raise StorageError(
            f"{path.name} was saved by another version of the app (format {written}; this one reads "
            f"{FORMAT}): the conversation has to be read again."
        )
    return about, digest


def _require_model(path: Path, about: Mapping[str, Any], model: LoadedModel) -> None:
    try:
        saved = about["model"]
        name, fingerprint, compute = str(saved["name"]), saved["fingerprint"], saved["compute"]
    except (KeyError, TypeError) as error:
        raise StorageError(f"{path.name} is no cache saved by this app.") from error
    if fingerprint != model.fingerprint:
        raise StorageError(
            f"{path.name} was saved with another model ({name}): load that one, or start a new chat."
        )
    if compute != model.compute:
        raise StorageError(
            f"{path.name} was saved by a model that computes in {compute}, this one in {model.compute}: "
            "the conversation has to be read again."
        )


def _digest(about: Mapping[str, Any], arrays: Mapping[str, mx.array]) -> str:
    """SHA-256 over what the file says of itself and over every array's name, type, shape and content."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        if array.size:
            content: Any = mx.contiguous(array).reshape(-1).view(mx.uint8)
            digest.update(content)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") if isinstance(error, VeloxQuantError) else f"at {error}"
