"""What one slot's cache and attention cost: blocks of a prompt, then single steps, beside the stock cache.

    python -m tests.benchmarks.attention [context] [method ...]

Random rows of the starter model's shape go through a few slots of every method in turn, so that all
meet the same conditions. Prints milliseconds per slot and the share of the stock cache's speed, by the wall
clock and by processor time; the latter is the steadier one on a machine that does other work too, and leaves
out what a second core does at the same time. Methods are spelled as on the command line.
"""

# ruff: noqa: E402
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from veloxquant_mlx.openblas import ensure_openblas

# It does not help an MLX that is loaded already.
ensure_openblas()

import mlx.core as mx
from mlx_lm.models import base as mlx_lm_base

from veloxquant_mlx.cache.base import CompressedKVCache
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.spelling import read_method

SLOTS, BLOCK, STEPS = 4, 128, 64
HEADS, QUERY_HEADS, DIM = 3, 9, 64
METHODS = ("skvq:Smallest", "skvq:Balanced", "skvq:Near-lossless", "affine")

Reading = tuple[float, float]
"""Seconds of one pass, by the wall clock and of processor time."""


def main() -> None:
    """Print the table."""
    context = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    names = tuple(sys.argv[2:]) or METHODS
    configs = [KVCacheConfig("plain"), *(read_method(name) for name in names)]
    methods: list[list[Any]] = [[config.make_cache(slot) for slot in range(SLOTS)] for config in configs]
    for cache in (cache for caches in methods for cache in caches if isinstance(cache, CompressedKVCache)):
        cache.on_codes = True
    readings: list[list[Reading]] = [[] for _ in methods]
    blocks = context // BLOCK
    for index, length in enumerate([*[BLOCK] * blocks, *[1] * STEPS]):
        queries, keys, values = (
            mx.random.normal((1, heads, length, DIM), key=mx.random.key(3 * index + kind))
            for kind, heads in enumerate((QUERY_HEADS, HEADS, HEADS))
        )
        mx.eval(queries, keys, values)
        for caches, found in zip(methods, readings, strict=True):
            found.append(_pass(caches, queries, keys, values))
    print(f"Milliseconds per slot, and of the stock cache's speed; {context:,} tokens, then {STEPS} steps.")
    phases = {
        "prompt": slice(0, blocks),
        "last block": slice(blocks - 1, blocks),
        "step": slice(blocks, None),
    }
    clocks = ("wall", "processor")
    print(" " * 20 + "".join(f"{f'{phase}, {clock}':>23}" for phase in phases for clock in clocks))
    for name, found in zip(("stock", *names), readings, strict=True):
        cells = []
        for phase, passes in phases.items():
            middle: Callable[[Sequence[float]], float] = (
                statistics.median if phase == "step" else statistics.mean
            )
            for clock in range(len(clocks)):
                own, stock = (middle([r[clock] for r in kept[passes]]) for kept in (found, readings[0]))
                cells.append(f"{1000 * own / SLOTS:17.3f}{stock / own:6.2f}")
        print(f"{name:20}" + "".join(cells))


def _pass(caches: Sequence[Any], queries: mx.array, keys: mx.array, values: mx.array) -> Reading:
    """Rows into every slot and attention over them, one slot's result being the next one's queries."""
    mask = "causal" if queries.shape[2] > 1 else None
    wall, processor = time.perf_counter(), time.process_time()
    for cache in caches:
        rows = cache.update_and_fetch(keys, values)
        if isinstance(cache, CompressedKVCache):
            queries = cache.attend(queries, DIM**-0.5, mask)
        else:
            queries = mlx_lm_base.scaled_dot_product_attention(queries, *rows, cache, DIM**-0.5, mask)
    mx.eval(queries, [cache.state for cache in caches])
    seconds = time.perf_counter() - wall, time.process_time() - processor
    mx.clear_cache()
    return seconds


if __name__ == "__main__":
    main()
