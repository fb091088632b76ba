"""Settings tried on a conversation's exact rows: how many slots within half a second, and when all of them.

python -m tests.benchmarks.what_if [MODEL] [TOKENS] [METHOD ...]
"""

import sys
import time
from pathlib import Path

import mlx.core as mx

from veloxquant_mlx import attention
from veloxquant_mlx.fidelity import Captured, Replayed, cut, read_text, replay
from veloxquant_mlx.models.load import load_model
from veloxquant_mlx.models.starter import starter_model
from veloxquant_mlx.spelling import read_method

WANTED = 0.5
"""Seconds from the slider to the first figures that may be."""
USUAL = ("skvq:Smallest", "skvq:Balanced", "svdq_skvq:Balanced", "svdq:Balanced", "affine")


def main() -> None:
    """Capture once, then try every method; prints wall and processor time."""
    told = sys.argv[1:]
    model, tokens = [*told[:2], *("starter", "2048")[len(told[:2]) :]]
    loaded = load_model(starter_model() if model == "starter" else Path(model))
    attention.enable(loaded.model)
    text = list(cut(loaded.tokenizer, read_text("twelfth-night"), 1000, int(tokens)))
    *_, end = replay(loaded.model, text, [])
    if not isinstance(end, Replayed):
        raise SystemExit("The replay did not end.")
    captured = Captured(end.rows, end.queries, len(text))
    del end
    mx.clear_cache()
    where = "in a temporary file" if captured.spilled else "in memory"
    print(f"{len(text):,} tokens, {len(captured)} slots, {loaded.compute}, rows kept {where}")
    for method in told[2:] or USUAL:
        config = read_method(method)
        for turn in ("first", "again"):
            began, used = time.perf_counter(), time.process_time()
            wall, processor = [], []
            for _ in captured.tries(loaded.model, config):
                wall.append(time.perf_counter() - began)
                processor.append(time.process_time() - used)
            print(
                f"{method:20} {turn}: first slot after {1000 * wall[0]:5.0f} ms, "
                f"{sum(t <= WANTED for t in wall):3} slots within {1000 * WANTED:.0f} ms, "
                f"all after {wall[-1]:5.2f} s wall, {processor[-1]:5.2f} s of processor time"
            )


if __name__ == "__main__":
    main()
