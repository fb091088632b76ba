"""What going back costs on real weights: time to the first token again, memory of marks, size of the file.

    python -m tests.benchmarks.going_back [MODEL_FOLDER] [PRESET ...]

A conversation of about 2,000 tokens in 20 turns, each a prompt of text and a short reply.
"""

# ruff: noqa: E402
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from veloxquant_mlx.openblas import ensure_openblas

# It does not help an MLX that is loaded already.
ensure_openblas()

from studio.core.session import Message, Session
from veloxquant_mlx.cache.slot import snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.fidelity.text import read_text
from veloxquant_mlx.steps import FinishedStep, Step, TokenStep

TURNS = 20
TOKENS = 2000


def first_token(steps: Iterator[Step]) -> tuple[float, FinishedStep]:
    """Seconds to the first token, and the end of the reply."""
    started = time.perf_counter()
    seconds = 0.0
    for step in steps:
        if isinstance(step, TokenStep) and step.count == 1:
            seconds = time.perf_counter() - started
        if isinstance(step, FinishedStep):
            return seconds, step
    raise RuntimeError("The reply has no end.")


def measure(session: Session, preset: str, config: KVCacheConfig, text: str) -> str:
    """One line of figures for one setting."""
    session.configure(config)
    session.new_chat()
    words = text.split()
    for turn in range(TURNS):
        prompt = " ".join(words[turn * 45 : (turn + 1) * 45])
        first_token(session.reply(prompt, max_tokens=24))
    live = session._live
    assert live is not None
    held = session.held
    cache = snapshot(live.caches).resident_bytes
    marks = len(live.marks), live.mark_bytes
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chat.cache"
        started = time.perf_counter()
        session.save(file)
        saving, size = time.perf_counter() - started, file.stat().st_size
        started = time.perf_counter()
        session.resume(file)
        loading = time.perf_counter() - started
        session._live = live
    again, step = first_token(session.regenerate(max_tokens=24))
    assert step.reuse is not None
    edited = [*session.messages[:-2], Message("user", "Say that in other words.")]
    edit, edit_step = first_token(session.answer(edited, max_tokens=24))
    assert edit_step.reuse is not None
    asked = [*session.messages[:-1]]
    session.new_chat()
    whole, _ = first_token(session.answer(asked, max_tokens=1))
    return (
        f"{preset:14} {held:5} tokens, cache {cache / 1e6:5.1f} MB resident; "
        f"{marks[0]} marks of {TURNS} turns {marks[1] / cache:5.1%}; "
        f"first token: all {whole:5.2f} s, regenerate {again:4.2f} s {again / whole:5.1%} "
        f"({step.prompt_tokens} read), edit {edit:4.2f} s {edit / whole:5.1%} "
        f"({edit_step.prompt_tokens} read, {edit_step.reuse.again} again); "
        f"file {size / cache - 1:+.1%}, saved in {saving:.2f} s, loaded in {loading:.2f} s"
    )


def main() -> None:
    """Print a line for each preset."""
    folder, *presets = sys.argv[1:] or ["starter"]
    session = Session(KVCacheConfig("plain"))
    if folder == "starter":
        from veloxquant_mlx.models.starter import starter_model

        session.load(starter_model())
    else:
        session.load(Path(folder))
    text = read_text("twelfth-night")
    skvq = type(KVCacheConfig("skvq"))
    for preset in presets or [*skvq.presets]:
        print(measure(session, preset, skvq.preset(preset), text), flush=True)
    for method in () if presets else ("affine", "plain"):
        print(measure(session, method, KVCacheConfig(method), text), flush=True)


if __name__ == "__main__":
    main()
