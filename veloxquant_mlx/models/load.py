"""The one way a model gets into memory: a folder, through mlx_lm, evaluated on the calling thread."""

import ctypes
import gc
import hashlib
import json
import logging
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..progress import Progress, part, silent
from . import compute as policy
from .describe import ModelInfo, describe, read_config
from .weights import read_weights, weight_files


@dataclass(slots=True)
class LoadedModel:
    """A model ready to generate. Use it and drop it on the thread that loaded it."""

    model: Any
    """mlx_lm's model, every array evaluated."""
    tokenizer: Any
    """mlx_lm's TokenizerWrapper."""
    info: ModelInfo
    config: dict[str, Any]
    compute: str
    """Device and precision in words, for example "CPU float32"."""
    context: int | None
    """Tokens the model was made for."""
    fingerprint: str
    """Hex digest that changes when configuration or weights are exchanged; see ``fingerprint``."""


def load_model(path: Path, progress: Progress | None = None, *, anyway: bool = False) -> LoadedModel:
    """Load a model folder.

    Never touches the network, runs code of the folder or reads a pickle. ``progress`` counts bytes of
    evaluated weights. A model that memory seems too small for is refused, unless it shall be tried
    ``anyway``. Raises ModelError in one sentence with the cause attached, and Cancelled from
    ``progress``; memory taken until then is given back.
    """
    report = progress or silent
    path = Path(path).expanduser().absolute()
    report(None, f"Looking at {path.name}")
    info = describe(path)
    if info.format == "gguf":
        raise ModelError(f"{path.name} is a GGUF file: import it first, then load the folder it becomes.")
    policy.settle_device()
    try:
        return _load(info, report, anyway)
    except BaseException as error:
        _forget(error)
        release_memory()
        raise


def release_memory() -> None:
    """Give memory of dropped models back; call it after the last reference is gone."""
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()
    # What glibc keeps for every thread that ever worked grows from model to model.
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def fingerprint(folder: Path) -> str:
    """SHA-256 over the configuration, every tensor's name, type and shape, and the files' sizes.

    Cheap: reads headers, not weights. Raises ModelError.
    """
    digest = hashlib.sha256(json.dumps(read_config(folder), sort_keys=True).encode())
    for tensor in sorted(read_weights(folder), key=lambda t: t.name):
        digest.update(f"{tensor.name} {tensor.dtype} {tensor.shape}\n".encode())
    for file in weight_files(folder):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()


def _load(info: ModelInfo, report: Progress, anyway: bool) -> LoadedModel:
    import mlx.core as mx

    report(None, "Getting mlx-lm ready")
    library = _offline_library()
    report(None, f"Reading {info.name}")
    # The two halves of mlx_lm.load, so that each failure gets the sentence that fits it.
    try:
        model, config = library.load_model(info.path, lazy=True)
    except Exception as error:
        raise ModelError(
            f"{info.name} can't be loaded ({_reason(error)}): download it again or choose another."
        ) from error
    # Layers draw first weights that nobody computes: the chain of draws would grow with every model.
    mx.eval(list(mx.random.state))  # type: ignore[call-overload]
    tokenizer = _load_tokenizer(library, info, config)
    chosen = policy.choose(model, info.parameters or 0, info.size_bytes, anyway=anyway)
    model = policy.apply(model, chosen)
    _evaluate(model, info, part(report, 0.02, 1.0))
    report(1.0, f"{info.name} is loaded")
    mark = fingerprint(info.path)
    return LoadedModel(model, tokenizer, info, config, chosen.words, info.context, mark)


def _offline_library() -> Any:
    """mlx_lm.utils, with the hub client beneath it told to stay offline."""
    from huggingface_hub import constants

    # Not by the environment: a download that the person asks for in another process would inherit it.
    constants.HF_HUB_OFFLINE = True
    from mlx_lm import utils

    # Its warnings, as of a prompt beyond the context, go past the log to the terminal.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return utils


def _load_tokenizer(library: Any, info: ModelInfo, config: dict[str, Any]) -> Any:
    settings = {"trust_remote_code": False, "local_files_only": True}
    try:
        tokenizer = library.load_tokenizer(info.path, settings, eos_token_ids=config.get("eos_token_id"))
        tokenizer.decode(tokenizer.encode("a"))
    except Exception as error:
        if "trust_remote_code" in str(error):
            text = (
                f"The tokenizer of {info.name} is code in its own folder, which is never run: choose another."
            )
        else:
            text = (
                f"The tokenizer of {info.name} is damaged or doesn't fit its configuration "
                f"({_reason(error)}): download the model again."
            )
        raise ModelError(text) from error
    return tokenizer


def _evaluate(model: Any, info: ModelInfo, report: Progress) -> None:
    """Evaluate leaf by leaf: packed weights go as their unpacked ones come, and cancel is heard."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    leaves = [leaf for _, leaf in tree_flatten(model.leaf_modules(), is_leaf=type(model).is_module)]
    total = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    done = 0
    words = f"Loading {info.name}"
    try:
        for leaf in leaves:
            report(done / max(1, total), words)
            arrays = [array for _, array in tree_flatten(leaf.parameters())]
            mx.eval(arrays)
            done += sum(array.nbytes for array in arrays)
        mx.eval(model.parameters())
    except (RuntimeError, MemoryError) as error:
        raise ModelError(f"The weights of {info.name} can't be read: {_reason(error)}.") from error


def _forget(error: BaseException | None) -> None:
    """Empty the frames an error and its causes hold on to: they keep half-loaded arrays alive."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str:
    """The first line of a library's message, short enough for one sentence."""
    lines = str(error).strip().splitlines()
    text = lines[0].strip().rstrip(".:") if lines else type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."
