"""What the model files of mlx_lm say about their slots: which may be replaced, and how they are read.

A model is known by the files its parts come from, not by its own: a wrapper for images or a newer name
of the same architecture is then treated like the text model inside it.
"""

from typing import Any

_FOLDER = "mlx_lm.models."

_LATENTS = "mla"
"""The file of mlx_lm whose projections are used where latents are cached in place of keys and values."""

_LISTS = frozenset({"falcon_h1", "baichuan_m1"})
"""Files whose CacheList holds a recurrent state beside an ordinary KV cache, each used by itself."""

_LEFT = {
    "afm7": "the last layers read again",
}
"""Files whose plain KV caches mean more than their layer's own rows -> that, after "rows that"."""

_SHARED = "its layers share keys and values"
_READS_ROWS = {
    "gpt_oss": "its attention has learned sinks",
    "mimo_v2_flash": "its attention has learned sinks",
    "gemma2": "it caps its attention scores",
    "gear": "it caps its attention scores",
    "gemma3n": _SHARED,
    "gemma4_text": _SHARED,
    "iquestloopcoder": "it reads the same rows a second time",
}
"""Files whose attention needs the rows themselves."""


def files(model: Any) -> frozenset[str]:
    """Names of the model files, without folders, that a model's parts are made of."""
    names = {type(part).__module__ for part in model.modules()}
    return frozenset(name.removeprefix(_FOLDER) for name in names if name.startswith(_FOLDER))


def keeps_latents(model: Any) -> bool:
    """True when the model caches latents in place of keys and values."""
    return _LATENTS in files(model)


def keeps_ordinary_lists(model: Any) -> bool:
    """True when a plain KV cache inside a CacheList of this model is used like one outside."""
    return bool(_LISTS & files(model))


def other_meaning(model: Any) -> str | None:
    """What else is done with the rows of the model's plain KV caches, after "rows that"; else None."""
    return next((_LEFT[name] for name in sorted(files(model) & _LEFT.keys())), None)


def reads_rows(model: Any, slots: int) -> str | None:
    """Why the model's attention needs the rows themselves, in words; None where codes may do.

    Args:
        slots: length of the model's cache list.
    """
    if keeps_latents(model):
        return "its rows are latents"
    for name in sorted(files(model) & _READS_ROWS.keys()):
        # The larger Gemma 4 models share nothing and have a slot for every layer.
        if _READS_ROWS[name] != _SHARED or slots < len(model.layers):
            return _READS_ROWS[name]
    return None
