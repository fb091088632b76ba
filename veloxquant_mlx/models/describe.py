"""Describing a model from its small files: nothing of its weights is read, none of its code run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..layout import Body, Layout
from .gguf_config import check_supported, make_config
from .gguf_header import read_header
from .slots import read_layout
from .weights import count_parameters, read_weights

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tiktoken.model")
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model on disk. A field that isn't known is None."""

    path: Path
    name: str
    source: str
    """Where it was found, in words."""
    format: str
    """"mlx" for a folder that can be loaded, "gguf" for a file to import."""
    architecture: str
    """model_type of the configuration; empty when unknown."""
    parameters: int | None = None
    weight_bits: float | None = None
    """Bits of weight files per parameter, scales included."""
    size_bytes: int = 0
    """Bytes of the weight files."""
    context: int | None = None
    """Tokens."""
    slots: int | None = None
    """Length of the model's cache list."""
    kv_slots: int | None = None
    """Slots of that list that are plain KV caches."""
    heads: int | None = None
    """KV heads of one layer, as its cache sees them."""
    key_dim: int | None = None
    """Channels of one cached key row."""
    value_dim: int | None = None
    layout: Layout | None = None
    """Its cache slots, and how each grows."""
    body: Body | None = None
    problem: str | None = None
    """Why it can't be used, in one sentence."""


_known: dict[tuple[Path, int, int], ModelInfo] = {}


def describe(path: Path, source: str = "opened") -> ModelInfo:
    """Describe a model folder or a GGUF file. Raises ModelError when it can't be used."""
    info = look(Path(path), source)
    if info.problem is not None:
        raise ModelError(info.problem)
    return info


def look(path: Path, source: str, name: str | None = None) -> ModelInfo:
    """Like ``describe`` but with what is wrong in ``problem``; answers are kept until a file changes."""
    path = path.expanduser().absolute()
    key = (path, *_stamp(path))
    if key not in _known:
        base = ModelInfo(path, path.stem if path.suffix == ".gguf" else path.name, "", "mlx", "")
        try:
            found = _gguf(base) if path.is_file() else _folder(base)
        except ModelError as error:
            found = replace(base, size_bytes=_size(path), problem=str(error))
            found = replace(found, format="gguf") if path.suffix == ".gguf" else found
        _known[key] = found
    return replace(_known[key], source=source, name=name or _known[key].name)


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a model folder. Raises ModelError; refuses one that wants its own code run."""
    file = folder / "config.json"
    if not folder.is_dir():
        raise ModelError(f"{folder} doesn't exist: choose a model folder or a .gguf file.")
    if not file.is_file():
        raise ModelError(f"{folder} holds no config.json: choose a folder with a whole model.")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"config.json in {folder} can't be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"config.json in {folder} is not JSON: download the model again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"config.json in {folder} is not an object: download the model again.")
    if config.get("model_file") is not None:
        raise ModelError(
            "This model wants to run code from its own folder, which is never done: choose another."
        )
    return config


def _folder(base: ModelInfo) -> ModelInfo:
    config = read_config(base.path)
    kind = config.get("model_type")
    base = replace(base, architecture=kind if isinstance(kind, str) else "")
    tensors = read_weights(base.path)
    size = sum(tensor.size for tensor in tensors)
    parameters = count_parameters(tensors, config)
    _check_tokenizer(base.path)
    return _filled(base, config, read_layout(config), parameters, size)


def _gguf(base: ModelInfo) -> ModelInfo:
    header = read_header(base.path)
    base = replace(base, format="gguf", architecture=str(header.metadata.get("general.architecture", "")))
    check_supported(header)
    # Rotary factors and end tokens change none of the numbers described here.
    config = make_config(header, None, [0])
    parameters = sum(_product(tensor.shape) for tensor in header.tensors)
    return _filled(base, config, read_layout(config), parameters, sum(t.size or 0 for t in header.tensors))


def _filled(
    base: ModelInfo, config: Mapping[str, Any], layout: Layout, parameters: int, size: int
) -> ModelInfo:
    heads, key_dim, value_dim = cache_shape(config) if layout.kv else (None, None, None)
    return replace(
        base,
        parameters=parameters or None,
        weight_bits=round(size * 8 / parameters, 2) if parameters else None,
        size_bytes=size,
        context=next((n for key in _CONTEXT_KEYS if (n := _whole(config, key)) is not None), None),
        slots=layout.total,
        kv_slots=layout.kv,
        heads=heads,
        key_dim=key_dim,
        value_dim=value_dim,
        layout=layout,
        body=_body(config),
    )


def _body(config: Mapping[str, Any]) -> Body | None:
    """The widths that decide what a running pass takes, where the configuration tells."""
    hidden = _whole(config, "hidden_size") or _whole(config, "n_embd") or _whole(config, "hidden_dim")
    queries = _whole(config, "num_attention_heads") or _whole(config, "n_head") or _whole(config, "num_heads")
    if hidden is None or queries is None:
        return None
    dense = _whole(config, "intermediate_size") or 4 * hidden
    experts = _whole(config, "num_experts_per_tok") or 1
    sparse = (_whole(config, "moe_intermediate_size") or 0) * experts
    return Body(hidden, max(dense, sparse), queries, _whole(config, "vocab_size") or 0)


def cache_shape(config: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """KV heads, key channels and value channels of one cached row, where the configuration tells."""
    queries = _whole(config, "num_attention_heads") or _whole(config, "n_head")
    if (latent := _whole(config, "kv_lora_rank")) is not None:
        rope, plain = _whole(config, "qk_rope_head_dim"), _whole(config, "qk_nope_head_dim")
        if config.get("model_type") in ("deepseek_v2", "minicpm3"):
            value = _whole(config, "v_head_dim") or plain
            return queries, rope + plain if rope and plain else None, value
        # Other models with latent attention cache the latent as keys and the rotary part as values.
        return 1, latent, rope
    hidden = _whole(config, "hidden_size") or _whole(config, "n_embd")
    size = _whole(config, "head_dim") or (hidden // queries if hidden and queries else None)
    return _whole(config, "num_key_value_heads") or queries, size, _whole(config, "v_head_dim") or size


def _check_tokenizer(folder: Path) -> None:
    has_tokenizer = any((folder / name).is_file() for name in _TOKENIZERS) or any(folder.glob("*.tiktoken"))
    settings: Any = {}
    file = folder / "tokenizer_config.json"
    if file.is_file():
        try:
            settings = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError("tokenizer_config.json is damaged: download the model again.") from error
        if not isinstance(settings, dict):
            raise ModelError("tokenizer_config.json is damaged: download the model again.")
    own = settings.get("auto_map")
    if isinstance(own, Mapping) and "AutoTokenizer" in own and not (folder / "tokenizer.json").is_file():
        raise ModelError(
            "This model's tokenizer is code in its own folder, which is never run: choose another."
        )
    if not has_tokenizer:
        raise ModelError(f"{folder} holds no tokenizer: download the model again.")


def _whole(config: Mapping[str, Any], key: str) -> int | None:
    for part in (config, config.get("text_config"), config.get("language_config")):
        value = part.get(key) if isinstance(part, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for length in shape:
        result *= length
    return result


def _files(path: Path) -> list[Path]:
    try:
        return [p for p in path.iterdir() if p.is_file()] if path.is_dir() else [path]
    except OSError:
        return []


def _stamp(path: Path) -> tuple[int, int]:
    """Newest change and total size of the files, so that a new download isn't taken for the old."""
    newest, total = 0, 0
    for file in _files(path):
        try:
            status = file.stat()
        except OSError:
            continue
        newest, total = max(newest, status.st_mtime_ns), total + status.st_size
    return newest, total


def _size(path: Path) -> int:
    total = 0
    for file in _files(path):
        if file.suffix in (".safetensors", ".gguf", ".bin"):
            try:
                total += file.stat().st_size
            except OSError:
                continue
    return total
