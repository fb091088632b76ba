"""Settings tried on a conversation's exact rows: estimated from one head of each slot, then measured on all.

How long after a slider was moved every slot has its estimate, how far that is off, and when all are measured.

python -m tests.benchmarks.what_if [MODEL] [TOKENS] [METHOD ...]
"""

import sys
import time
from pathlib import Path

# ruff: noqa: E402
from veloxquant_mlx.openblas import ensure_openblas

# It does not help an MLX that is loaded already.
ensure_openblas()

import mlx.core as mx
import numpy as np

from veloxquant_mlx import attention
from veloxquant_mlx.fidelity import Captured, Replayed, cut, read_text, replay
from veloxquant_mlx.models.load import load_model
from veloxquant_mlx.models.starter import starter_model
from veloxquant_mlx.spelling import read_method

USUAL = (
    "skvq:Balanced",
    "skvq:Smallest",
    "skvq:Near-lossless",
    "svdq_skvq:Balanced",
    "svdq_skvq:Smallest",
    "svdq:Balanced",
    "affine",
)


def main() -> None:
    """Capture once, then try every method; each estimate follows a whole try of the method before it."""
    told = sys.argv[1:]
    model, tokens = [*told[:2], *("starter", "2048")[len(told[:2]) :]]
    loaded = load_model(starter_model() if model == "starter" else Path(model))
    attention.enable(loaded.model)
    text = list(cut(loaded.tokenizer, read_text("twelfth-night"), 1000, int(tokens)))
    *_, end = replay(loaded.model, text, [])
    if not isinstance(end, Replayed):
        raise SystemExit("The replay did not end.")
    captured = Captured(end.rows, end.queries, len(text), seen=end.seen)
    del end
    mx.clear_cache()
    where = "in a temporary file" if captured.spilled else "in memory"
    print(f"{len(text):,} tokens, {len(captured)} slots, {loaded.compute}, rows kept {where}")
    for method in told[2:] or USUAL:
        config = read_method(method)
        began = time.perf_counter()
        about = {one.slot: one.attention_error for one in captured.estimates(loaded.model, config)}
        estimated = time.perf_counter()
        exact = {one.slot: one.attention_error for one in captured.tries(loaded.model, config)}
        measured = time.perf_counter()
        pairs = np.array([(about[slot], exact[slot]) for slot in about], np.float64)
        mean, found = pairs.mean(axis=0)
        apart = np.abs(np.log(pairs[:, 0] / pairs[:, 1]))
        print(
            f"{method:20} {len(about)} slots estimated after {1000 * (estimated - began):4.0f} ms, "
            f"measured {measured - estimated:5.2f} s later: {mean:.2%} for {found:.2%}, "
            f"single slots {np.exp(np.median(apart)) - 1:.0%} off (median), "
            f"{np.exp(apart.max()):.1f} times at most"
        )


if __name__ == "__main__":
    main()
