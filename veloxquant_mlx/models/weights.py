"""What the headers of safetensors files say, read without reading a weight."""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError

_LONGEST_HEADER = 100 << 20
_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "U64": 64, "I32": 32, "U32": 32, "I16": 16,
    "U16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "C64": 64, "F4": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WeightInfo:
    """One tensor of a model folder."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    """Bytes."""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files mlx_lm will read, by name. Raises ModelError when there is none or one of
    those the index names is missing."""
    files = sorted(folder.glob("model*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            named = set()
        missing = sorted(str(name) for name in named if not (folder / str(name)).is_file())
        if missing:
            raise ModelError(f"The folder lacks the weight file {missing[0]}: download the model again.")
    if files:
        return files
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
        raise ModelError(
            "The folder holds its weights only as pickles, which can run code and are never read: "
            "get the model as safetensors."
        )
    raise ModelError("The folder holds no model*.safetensors file: download the model again.")


def read_weights(folder: Path) -> list[WeightInfo]:
    """Every tensor of the folder's weight files.

    Promises that each lies inside its file. Raises ModelError in one sentence naming the file.
    """
    return [tensor for file in weight_files(folder) for tensor in _read_header(file)]


def _read_header(file: Path) -> list[WeightInfo]:
    try:
        return read_header(file)[0]
    except OSError as error:
        raise ModelError(f"{file.name} can't be read ({error.strerror or error}).") from error
    except ValueError as error:
        raise ModelError(
            f"{file.name} is damaged or was not downloaded to its end: download the model again."
        ) from error


def read_header(file: Path) -> tuple[list[WeightInfo], Any]:
    """The tensors of a safetensors file and its metadata, which may be anything.

    Promises that each tensor lies inside the file and is as long as its shape and type say, where the
    type is known. Raises OSError, and ValueError for a damaged or cut file.
    """
    size = file.stat().st_size
    with file.open("rb") as handle:
        start = handle.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(size - 8, _LONGEST_HEADER):
            raise ValueError("The header is longer than the file.")
        text = handle.read(length)
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", None)
        return [_tensor(name, entry, size - 8 - length) for name, entry in header.items()], metadata
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("The header is damaged.") from error


def _tensor(name: str, entry: Mapping[str, Any], room: int) -> WeightInfo:
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not all(isinstance(n, int) and n >= 0 for n in (begin, end, *shape)) or not begin <= end <= room:
        raise ValueError(name)
    bits = _BITS.get(entry["dtype"])
    if bits is not None and math.prod(shape) * bits != (end - begin) * 8:
        raise ValueError(name)
    return WeightInfo(name, str(entry["dtype"]), shape, end - begin)


def count_parameters(tensors: list[WeightInfo], config: Mapping[str, Any]) -> int:
    """Number of parameters; a packed weight counts as what it stands for, its scales not at all."""
    by_name = {tensor.name: tensor for tensor in tensors}
    quantization = config.get("quantization") or config.get("quantization_config") or {}
    quantization = quantization if isinstance(quantization, Mapping) else {}
    total = 0
    for tensor in tensors:
        module, _, last = tensor.name.rpartition(".")
        if last in ("scales", "biases", "qzeros", "g_idx") and f"{module}.scales" in by_name:
            continue
        values = math.prod(tensor.shape)
        if last == "qweight":
            values = values * 32 // _number(quantization, "bits", 4)
        elif last == "weight" and tensor.dtype == "U32" and f"{module}.scales" in by_name:
            own = quantization.get(module)
            group = _number(own if isinstance(own, Mapping) else quantization, "group_size", 64)
            values = math.prod(by_name[f"{module}.scales"].shape) * group
        total += values
    return total


def _number(settings: Mapping[str, Any], key: str, default: int) -> int:
    value = settings.get(key, default)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
