"""The cache slots a model would make, found by building its class without a single weight."""

import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any

from ..errors import ModelError
from ..layout import Layout

_MODULE_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
_MOST_LAYERS = 1000


def read_layout(config: Mapping[str, Any]) -> Layout:
    """Build the model of ``config`` lazily (no array is evaluated) and look at its cache list.

    Imports mlx_lm. Raises ModelError when mlx_lm doesn't know the model or can't build it.
    """
    import mlx.core as mx
    from mlx_lm.utils import _get_classes

    from ..builder import layout_of

    kind = config.get("model_type")
    if not isinstance(kind, str) or not _MODULE_NAME.match(kind.replace("-", "_")):
        raise ModelError("Its config.json names no model_type: it can't be loaded.")
    for part in (config, config.get("text_config")):
        layers = part.get("num_hidden_layers", 1) if isinstance(part, Mapping) else 1
        if not isinstance(layers, int) or not 0 < layers <= _MOST_LAYERS:
            raise ModelError(f"Its config.json asks for {layers} layers, which can't be right.")
    try:
        import_module("mlx_lm.models.base")
        with redirect_stdout(StringIO()):
            model_class, args_class = _get_classes(dict(config))
    except (ValueError, AttributeError, SystemExit) as error:
        # One model file prints and ends the program where a package that it wants is missing.
        raise ModelError(
            f"Models of type '{kind}' are not supported by this version of mlx-lm: choose another."
        ) from error
    try:
        model = model_class(args_class.from_dict(dict(config)))
        # A state that stays in float32 whatever the model computes in is told by its type.
        model.set_dtype(mx.bfloat16)
        return layout_of(model)
    except Exception as error:
        # Whatever a model's constructor makes of a wrong configuration, it comes out as one sentence.
        raise ModelError(
            f"Its config.json doesn't describe a whole '{kind}' model ({_short(error)})."
        ) from error


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."
