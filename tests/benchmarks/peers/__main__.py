"""Our methods, mlx_lm's caches and the package of PyPI on the same model, text and blocks.

    python -m venv PEER && PEER/bin/pip install veloxquant-mlx
    python -m tests.benchmarks.peers MODEL PEER/bin/python [--picture-only]

The package shares our import name, so it runs as a black box in its own environment (driver.py). Every cache
is measured beside mlx_lm's uncompressed one of its own process. Prints one table, writes it with date,
machine and versions into result.json here, and draws the front of bytes against divergence for README.
"""

import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.picture import picture
from veloxquant_mlx.openblas import ensure_openblas, find_openblas
from veloxquant_mlx.tables import table

HERE = Path(__file__).parent
RESULT = HERE / "result.json"
PICTURE = HERE.parents[2] / "assets" / "screenshots" / "pareto.svg"
TEXT, SKIP, TOKENS, BLOCK, START, STEPS = "twelfth-night", 1000, 2048, 128, 256, 32
OURS = (
    *(f"skvq:{preset}" for preset in ("Smallest", "Balanced", "Near-lossless")),
    "skvq:Near-lossless,skvq_bits_key=6,skvq_bits_value=6",
    *(f"svdq:{preset}" for preset in ("Smallest", "Balanced", "Near-lossless")),
    *(f"svdq_skvq:{preset}" for preset in ("Smallest", "Balanced", "Near-lossless")),
)
MLX_LM = tuple(f"affine,affine_bits={bits}" for bits in (2, 4, 8))
PEER: dict[str, dict[str, Any]] = {
    "skvq 2/2": {"method": "skvq", "skvq_bits_key": 2, "skvq_bits_value": 2},
    "skvq 4/4": {"method": "skvq", "skvq_bits_key": 4, "skvq_bits_value": 4},
    "svdq": {"method": "svdq"},
    "kivi 2": {"method": "kivi", "bit_width_inlier": 2},
    "kivi 4": {"method": "kivi", "bit_width_inlier": 4},
    "turboquant_rvq 1": {"method": "turboquant_rvq", "bit_width_inlier": 1},
    "turboquant_rvq 2": {"method": "turboquant_rvq", "bit_width_inlier": 2},
    "kvquant": {"method": "kvquant"},
    "snapkv": {"method": "snapkv"},
}


def main() -> None:
    """Measure, print, write, draw."""
    ensure_openblas()
    if "--picture-only" not in sys.argv:
        model, python = Path(sys.argv[1]).absolute(), sys.argv[2]
        tokens, ours = _ours(model)
        theirs = _theirs(model, python, tokens)
        result = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "model": model.name,
            "text": f"{TEXT}, tokens {SKIP:,} to {SKIP + TOKENS:,}, blocks of {BLOCK}, scored from {START}",
            "versions": {
                "mlx": version("mlx"), "mlx-lm": version("mlx-lm"), "veloxquant-mlx": theirs["version"],
                "its mlx": theirs["mlx"], "its mlx-lm": theirs["mlx_lm"],
            },
            "rows": [*ours, *({"whose": "PyPI"} | row for row in theirs["methods"])],
        }  # fmt: skip
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    result = json.loads(RESULT.read_text("utf-8"))
    PICTURE.write_text(picture(result), "utf-8")
    print(table(("", "counted MB", "resident MB", "KL", "same top-1", "prefill", "decode"),
                [_cells(row) for row in result["rows"]]))  # fmt: skip


def _ours(model: Path) -> tuple[list[int], list[dict[str, Any]]]:
    from veloxquant_mlx.fidelity import measure
    from veloxquant_mlx.fidelity.text import cut, read_text
    from veloxquant_mlx.models.load import load_model
    from veloxquant_mlx.spelling import read_method

    loaded = load_model(model)
    tokens = list(cut(loaded.tokenizer, read_text(TEXT), SKIP, TOKENS))
    rows = []
    for name in (*OURS, *MLX_LM):
        # Each beside its own reference only: many caches at once would crowd one another out.
        found = measure(
            loaded.model, tokens, [read_method(name)], block=BLOCK, start=START, decode_steps=STEPS
        )
        method = found.methods[0]
        print(f"{name}: {method.problem or 'measured'}", file=sys.stderr)
        rows.append({
            "whose": "ours" if name in OURS else "mlx_lm",
            "name": name,
            "counted": method.counted.total,
            "resident": method.memory_growth,
            "kl": method.kl.mean if method.kl else None,
            "same_top1": method.same_top1,
            "prefill": method.prefill.ratio if method.prefill else None,
            "decode": method.decode.ratio if method.decode else None,
        })  # fmt: skip
    return tokens, rows


def _theirs(model: Path, python: str, tokens: list[int]) -> dict[str, Any]:
    """One process a method, each beside the uncompressed cache."""
    rows: list[dict[str, Any]] = []
    told: dict[str, Any] = {}
    blas = find_openblas()
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if blas:
        surroundings["LD_PRELOAD"] = blas
    with tempfile.TemporaryDirectory() as folder:
        job, out = Path(folder) / "job.json", Path(folder) / "result.json"
        for name, method in PEER.items():
            job.write_text(json.dumps({
                "model": str(model), "tokens": tokens, "block": BLOCK, "start": START, "steps": STEPS,
                "methods": {name: method},
            }), "utf-8")  # fmt: skip
            # Elsewhere, so that our package of the same name is not found first.
            command = [str(Path(python).absolute()), str(HERE / "driver.py"), str(job), str(out)]
            print(f"{name} of PyPI", file=sys.stderr)
            subprocess.run(command, cwd=folder, env=surroundings, check=True)
            told = json.loads(out.read_text("utf-8"))
            rows += told["methods"]
    return told | {"methods": rows}


def _cells(row: dict[str, Any]) -> list[str]:
    name = f"{row['whose']} {row['name']}"
    if row.get("problem"):
        return [name, row["problem"][:60], "", "", "", "", ""]
    counted = "not told" if row["counted"] is None else f"{row['counted'] / 1e6:.2f}"
    kl = "not finite" if row["kl"] is None else f"{row['kl']:.4f}"
    share = [f"{row[name]:.2f}" for name in ("prefill", "decode")]
    return [name, counted, f"{row['resident'] / 1e6:.2f}", kl, f"{row['same_top1']:.1%}", *share]


if __name__ == "__main__":
    main()
