"""A reply compared with the uncompressed cache: how long against a plain prefill of the same conversation.

python -m tests.benchmarks.replay [MODEL] [TOKENS] [REPLY] [METHOD]

Tokens of a play stand in for the conversation, the last of them for the reply; its distributions are made by
the method's own cache. Prefill and replay take turns three times; the fastest of each counts.
"""

# ruff: noqa: E402
import sys
import time
from pathlib import Path

from veloxquant_mlx.openblas import ensure_openblas

# It does not help an MLX that is loaded already.
ensure_openblas()

import mlx.core as mx

from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.fidelity import Captured, KeptRows, Replayed, Spoken, cut, read_text, replay
from veloxquant_mlx.generation import prefill
from veloxquant_mlx.models.load import load_model
from veloxquant_mlx.models.starter import starter_model
from veloxquant_mlx.pieces import Pieces
from veloxquant_mlx.spelling import read_method

ROUNDS = 3
USUAL = ("starter", "2000", "500", "skvq:Balanced")


def main() -> None:
    """Time both and print seconds, processor seconds and their ratios."""
    told = sys.argv[1:]
    model, tokens, reply, method = [*told, *USUAL[len(told) :]]
    loaded = load_model(starter_model() if model == "starter" else Path(model))
    config, count, said = read_method(method), int(tokens), int(reply)
    text = list(cut(loaded.tokenizer, read_text("twelfth-night"), 1000, count))
    spoken = Spoken(count - said, tuple(text[-said:]), _rows(loaded, config, text, said))
    plain, whole, slots = [], [], []
    for _ in range(ROUNDS):
        caches = KVCacheBuilder.for_model(loaded.model, KVCacheConfig("plain"))
        plain.append(_timed(lambda c=caches: list(prefill(loaded.model, Pieces(loaded.tokenizer), c, text))))
        del caches
        mx.clear_cache()
        ended: list[Replayed] = []
        whole.append(_timed(lambda e=ended: e.append(list(replay(loaded.model, text, [spoken]))[-1])))
        (end,) = ended
        captured = Captured(end.rows, end.queries, count, seen=end.seen)
        del end, ended
        slots.append(_timed(lambda c=captured: list(c.tries(loaded.model, config))))
        del captured
        mx.clear_cache()
    kept = f"kept {spoken.rows.nbytes / 1e6:.1f} MB"
    print(f"{count:,} tokens, {said:,} of them a reply, {config.label}, {loaded.compute}; {kept}")
    least = [min(run[n] for run in plain) for n in (0, 1)]
    for name, runs in (("prefill", plain), ("replay", whole), ("slots", slots)):
        wall, used = (min(run[n] for run in runs) for n in (0, 1))
        shares = f"{wall / least[0]:.2f} and {used / least[1]:.2f} of the prefill"
        print(f"{name:8} {wall:6.2f} s wall, {used:6.2f} s of processor time: {shares}")


def _rows(loaded, config, text, said) -> KeptRows:  # type: ignore[no-untyped-def]
    """Distributions of the reply through the method's cache; in blocks: their time does not count."""
    kept, caches = KeptRows(), KVCacheBuilder.for_model(loaded.model, config)
    start = len(text) - said - 1
    list(prefill(loaded.model, Pieces(loaded.tokenizer), caches, text[:start]))
    for at in range(start, len(text) - 1, 64):
        logits = loaded.model(mx.array(text[at : min(at + 64, len(text) - 1)])[None], cache=caches)[0]
        rows = (logits - mx.logsumexp(logits, axis=-1, keepdims=True)).astype(mx.float16)
        for row in rows:
            kept.add(row)
    return kept


def _timed(work) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


if __name__ == "__main__":
    main()
