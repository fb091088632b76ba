"""Random models of a few layers of any family, built in milliseconds, and whole model folders to load."""

from pathlib import Path
from typing import Any

from tests.families import FAMILIES
from veloxquant_mlx.models.tiny import (
    CHAT_TEMPLATE,
    SIZES,
    VOCABULARY,
    random_model,
    write_model,
    write_tokenizer,
)

__all__ = ["CHAT_TEMPLATE", "VOCABULARY", "tiny_config", "tiny_folder", "tiny_model", "write_tokenizer"]


def tiny_config(family: str = "llama", **overrides: Any) -> dict[str, Any]:
    """``config.json`` of a tiny model; ``family`` is a model file of mlx_lm."""
    config = {"model_type": family, **SIZES, **FAMILIES[family], **overrides}
    if "text_config" in config:
        config["text_config"] = {"model_type": family, **SIZES, **config["text_config"]}
    return config


def tiny_model(family: str = "llama", *, seed: int = 0, **overrides: Any) -> Any:
    """A random float32 model, evaluated on the calling thread; the same seed gives the same weights."""
    return random_model({**tiny_config(family, **overrides), "model_type": family}, seed)


def tiny_folder(
    path: Path,
    family: str = "llama",
    *,
    seed: int = 0,
    chat_template: str | None = CHAT_TEMPLATE,
    bits: int | None = None,
    **overrides: Any,
) -> Path:
    """Write a complete model folder and return it; ``bits`` quantizes the weights in groups of 32."""
    config = tiny_config(family, **overrides)
    return write_model(path, config, seed=seed, bits=bits, chat_template=chat_template)
