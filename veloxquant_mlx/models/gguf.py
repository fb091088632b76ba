"""Importing a GGUF file: it becomes an ordinary MLX model folder, 4-bit weights kept packed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import paths
from ..atomic import atomic_folder
from ..errors import ModelError
from ..progress import Progress, part, silent
from .disk import alone, need_space, sweep, writing
from .gguf_config import ROPE_FACTORS, check_supported, make_config, mlx_name
from .gguf_header import Header, TensorInfo, read_header
from .gguf_tokenizer import end_tokens, write_tokenizer

__all__ = ["IMPORT_NOTE", "Header", "TensorInfo", "convert", "import_gguf", "read_header"]

IMPORT_NOTE = "import.json"
"""Says where an imported folder came from; only folders that hold it are ever replaced."""

_BESIDE_WEIGHTS = 48 << 20
"""Upper bound of what config and tokenizer take, bytes."""


def import_gguf(file: Path, destination: Path | None = None, progress: Progress | None = None) -> Path:
    """Convert ``file`` into a model folder and return it; ``destination`` defaults to one named after
    the file among this app's models.

    A folder imported earlier is replaced in one step, any other existing folder is refused. Raises
    ModelError, and Cancelled from ``progress``; then nothing is left behind.
    """
    file = Path(file)
    report = progress or silent
    report(0.0, f"Reading {file.name}")
    header = read_header(file)
    check_supported(header)
    target = destination or paths.models_dir() / file.stem
    if target.exists() and not (target / IMPORT_NOTE).is_file():
        raise ModelError(f"{target} already exists and was not made by an import: choose another folder.")
    need_space(target, file.stat().st_size + _BESIDE_WEIGHTS)
    with writing(target), alone(target.parent, report):
        sweep(target.parent, target.name)
        with atomic_folder(target) as folder:
            convert(file, header, folder, report)
    return target


def convert(file: Path, header: Header, folder: Path, progress: Progress) -> None:
    """Write the model folder for a file whose header was read and checked.

    Raises ModelError, OSError of a disk that refuses, and Cancelled from ``progress``.
    """
    import mlx.core as mx

    ends = end_tokens(header)
    progress(0.05, f"Reading the weights of {file.name}")
    try:
        # mx.load gives Q4_0, Q4_1 and Q8_0 tensors as weight, scales and biases of affine groups of 32.
        loaded: Any = mx.load(str(file), format="gguf")
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"The weights in {file.name} can't be read: download it again.") from error
    arrays: dict[str, Any] = loaded
    factors = arrays.pop(ROPE_FACTORS).astype(mx.float32).tolist() if _has_factors(header) else None
    config = make_config(header, factors, ends)
    write_tokenizer(header, folder, config["max_position_embeddings"])
    weights = {str(mlx_name(name)): value for name, value in arrays.items()}
    del arrays, loaded
    if config.get("attention_bias"):
        _fill_output_bias(weights, config)
    _save(folder / "model.safetensors", weights, part(progress, 0.3, 1.0))
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    note = {
        "source": file.name,
        "source_bytes": file.stat().st_size,
        "name": header.metadata.get("general.name"),
        "license": header.metadata.get("general.license"),
    }
    (folder / IMPORT_NOTE).write_text(json.dumps(note, indent=1), encoding="utf-8")
    progress(1.0, f"{file.name} imported")


def _has_factors(header: Header) -> bool:
    return any(tensor.name == ROPE_FACTORS for tensor in header.tensors)


def _fill_output_bias(weights: dict[str, Any], config: Mapping[str, Any]) -> None:
    """mlx_lm's llama has a bias on all four projections or on none; files leave out the last."""
    import mlx.core as mx

    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}.self_attn.o_proj.bias"
        weights.setdefault(name, mx.zeros((config["hidden_size"],), dtype=mx.float32))


def _save(path: Path, weights: dict[str, Any], progress: Progress) -> None:
    import mlx.core as mx

    total = sum(array.nbytes for array in weights.values())
    with path.open("wb") as file:
        target: Any = _Reporting(file, total, progress)
        mx.save_safetensors(target, weights, metadata={"format": "mlx"})
        file.flush()
        os.fsync(file.fileno())


class _Reporting:
    """A file that reports each write.

    Given a path, ``mx.save_safetensors`` ignores a full disk; given an object, what its ``write``
    raises comes through, a full disk as well as a wish to cancel.
    """

    def __init__(self, file: Any, total: int, progress: Progress) -> None:
        self._file, self._total, self._progress, self._done = file, total, progress, 0

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, data: Any) -> int:
        count = int(self._file.write(data))
        self._done += count
        self._progress(self._done / max(1, self._total), "Writing the weights")
        return count

    def seek(self, *place: int) -> int:
        return int(self._file.seek(*place))

    def tell(self) -> int:
        return int(self._file.tell())
