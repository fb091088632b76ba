"""What an installation proves about itself, with no window: that everything is there and works."""

import json
import pkgutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from studio.core.session import Session
from veloxquant_mlx.config import methods
from veloxquant_mlx.steps import FinishedStep

CONTENTS = "contents.json"
"""Written by the build of a packaged app: what it must find in itself."""

_MODELS = "mlx_lm.models"
_SAID = 'Grüße, 東京 🙂: a\tb\n  x² ≤ 3 "quoted" C\'était 12,345.67'
_REPLY_TOKENS = 4


def contents() -> dict[str, Any] | None:
    """What the build of a packaged app put in; None elsewhere."""
    packed = getattr(sys, "_MEIPASS", None)
    if packed is None:
        return None
    read: dict[str, Any] = json.loads((Path(packed) / CONTENTS).read_text(encoding="utf-8"))
    return read


def prove(model: Path, prompt: str) -> dict[str, Any]:
    """Try everything; returns JSON-ready findings, with what is wrong under ``problems``.

    Args:
        model: a model folder, which is loaded on the calling thread.
        prompt: long enough for every method to have something to compress.
    """
    known, problems = contents(), list[str]()
    record: dict[str, Any] = {"packed": known is not None, "model": model.name, "problems": problems}
    record["methods"] = list(methods())
    if known is not None and record["methods"] != known["methods"]:
        problems.append(f"methods are {record['methods']}, the build had {known['methods']}")
    importable = importable_models()
    record["model_modules"] = len(importable)
    if known is not None:
        lost = sorted(set(known["model_modules"]) - set(importable))
        problems.extend(f"{name} can't be imported from {_MODELS} any more" for name in lost)
    session = Session(next(iter(methods().values()))())
    loaded = session.load(model)
    record["compute"] = loaded.compute
    if session.model is None or not _round_trip(session.model.tokenizer):
        problems.append("the tokenizer does not give back what it was given")
    record["replies"] = {key: _reply(session, key, prompt, problems.append) for key in methods()}
    session.unload()
    return record


def importable_models() -> list[str]:
    """The model files of mlx_lm that can be imported; a few ask for packages that mlx_lm does not require."""
    package = import_module(_MODELS)
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        # One of them ends the program where its package is missing.
        with suppress(ImportError, SystemExit), redirect_stdout(StringIO()):
            import_module(f"{_MODELS}.{module.name}")
            found.append(module.name)
    return sorted(found)


def _round_trip(tokenizer: Any) -> bool:
    tokens = tokenizer.encode(_SAID, add_special_tokens=False)
    return bool(tokens) and tokenizer.decode(tokens) == _SAID


def _reply(session: Session, key: str, prompt: str, problem: Callable[[str], None]) -> dict[str, Any]:
    """A few tokens through one method at its defaults; counted and resident bytes, and its frontier."""
    session.configure(methods()[key]())
    session.new_chat()
    end = None
    for step in session.reply(prompt, max_tokens=_REPLY_TOKENS):
        if isinstance(step, FinishedStep):
            end = step
    if end is None or end.reply_tokens < 1:
        problem(f"{key} wrote nothing")
        return {}
    held = end.snapshot
    if not held.counted.total or held.tokens < end.prompt_tokens:
        problem(f"{key} holds {held.tokens} of {end.prompt_tokens} tokens")
    if key.startswith(("skvq", "svdq")) and not held.gauge("frontier"):
        problem(f"{key} compressed nothing")
    return {
        "prompt_tokens": end.prompt_tokens,
        "reply_tokens": end.reply_tokens,
        "counted_bytes": held.counted.total,
        "resident_bytes_measured": held.resident_bytes,
        "reference_16_bit_bytes_counted": held.reference_bytes,
    }
