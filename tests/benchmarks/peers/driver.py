"""Runs the package of PyPI as a black box, in its own environment: nothing of ours is importable there.

    python driver.py JOB.json RESULT.json

The job names a model folder, tokens, the block, where scoring starts, how many single steps follow, and the
methods as keyword arguments of the package's own ``KVCacheConfig``. All caches are fed in turn, pass by pass,
beside mlx_lm's uncompressed one, and every figure is taken as our own ruler takes it. Values that the package
says of itself (counted bytes) come from the public properties of its caches.
"""

import json
import math
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import dequantize_model

_TOLD = (
    "compressed_key_bytes",
    "compressed_value_bytes",
    "value_fp16_bytes",
    "residual_fp16_bytes",
    "perm_bytes",
)
"""Properties in which its caches tell what they take."""


class Lane:
    """One cache list and what was measured of it."""

    def __init__(self, name: str, caches: list[Any]) -> None:
        self.name = name
        self.caches = caches
        self.grown = 0
        self.blocks: list[float] = []
        self.steps: list[float] = []
        self.kl: list[float] = []
        self.same: list[bool] = []
        self.problem: str | None = None

    def forward(self, model: Any, tokens: list[int]) -> mx.array:
        """Log-probabilities [S, V] of a pass; notes its seconds and the memory that stayed."""
        mx.clear_cache()
        before, started = mx.get_active_memory(), time.perf_counter()
        out = model(mx.array(tokens)[None], cache=self.caches)
        mx.eval(out)
        (self.blocks if len(tokens) > 1 else self.steps).append(time.perf_counter() - started)
        size = out.nbytes
        self.grown += mx.get_active_memory() - before - size
        out = out[0].astype(mx.float32)
        found = out - mx.logsumexp(out, axis=-1, keepdims=True)
        mx.eval(found)
        return found

    def told(self) -> int | None:
        """Bytes as its caches tell; None where they do not speak of both keys and values."""
        names = [name for name in _TOLD if hasattr(self.caches[0], name)]
        if not any("value" in name for name in names):
            return None
        return sum(int(getattr(cache, name)) for cache in self.caches for name in names)


def main() -> None:
    """Run the job."""
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    model, _ = mlx_lm.load(job["model"])
    # As our own loader does on a CPU, where kernels on packed weights take a hundred times as long.
    model = dequantize_model(model)
    model.update(tree_map(lambda a: a.astype(mx.float32) if mx.issubdtype(a.dtype, mx.floating) else a,
                          model.parameters()))  # fmt: skip
    mx.eval(model.parameters())
    stock = Lane("stock", make_prompt_cache(model))
    lanes = [stock, *(_lane(model, name, told) for name, told in job["methods"].items())]
    tokens, block, start = job["tokens"], job["block"], job["start"]
    for begin in range(0, len(tokens), block):
        _pass(model, lanes, tokens[begin : begin + block], max(0, start - begin))
        print(f"{begin + block} of {len(tokens)} tokens", file=sys.stderr)
    counted = {lane.name: (lane.told() if lane.problem is None and lane is not stock else None, lane.grown)
               for lane in lanes}  # fmt: skip
    token = tokens[-1]
    for _ in range(job["steps"]):
        token = _pass(model, lanes, [token], 1)
    result = {
        "version": version("veloxquant-mlx"),
        "mlx": version("mlx"),
        "mlx_lm": version("mlx-lm"),
        "methods": [_record(lane, stock, *counted[lane.name]) for lane in lanes[1:]],
    }
    Path(sys.argv[2]).write_text(json.dumps(result, indent=1), "utf-8")


def _lane(model: Any, name: str, told: dict[str, Any]) -> Lane:
    from veloxquant_mlx import KVCacheBuilder, KVCacheConfig  # Of that environment: not this repository's.

    try:
        return Lane(name, KVCacheBuilder.for_model(model, KVCacheConfig(**told)))
    except Exception as error:
        lane = Lane(name, [])
        lane.problem = f"{type(error).__name__}: {error}"
        return lane


def _pass(model: Any, lanes: list[Lane], tokens: list[int], skipped: int) -> int:
    """Feed every lane; scores from row ``skipped`` on. Gives the likeliest next token."""
    reference: mx.array | None = None
    for lane in lanes:
        if lane.problem is not None:
            continue
        try:
            found = lane.forward(model, tokens)
        except Exception as error:
            lane.problem = f"{type(error).__name__}: {error}"
            continue
        if reference is None:
            reference = found
        elif skipped < len(tokens):
            ours, theirs = reference[skipped:], found[skipped:]
            lane.kl += np.array((mx.exp(ours) * (ours - theirs)).sum(axis=-1)).tolist()
            lane.same += np.array(ours.argmax(axis=-1) == theirs.argmax(axis=-1)).tolist()
    if reference is None:
        raise SystemExit("The model itself does not run.")
    return int(np.array(reference[-1].argmax()))


def _record(lane: Lane, stock: Lane, counted: int | None, resident: int) -> dict[str, Any]:
    if lane.problem is not None:
        return {"name": lane.name, "problem": lane.problem}
    kl = statistics.fmean(lane.kl)
    return {
        "name": lane.name,
        "counted": counted,
        "resident": resident,
        "kl": kl if math.isfinite(kl) else None,
        "same_top1": statistics.fmean(lane.same),
        "prefill": sum(stock.blocks) / sum(lane.blocks),
        "decode": statistics.median(stock.steps) / statistics.median(lane.steps),
    }


if __name__ == "__main__":
    main()
