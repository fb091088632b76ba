"""``veloxquant plan``: what a model would take, and how long a context fits, before it is loaded."""

import argparse
import json
import re
from typing import Any

from .arguments import add_method, count, progress_bar, resolve_model
from .config import KVCacheConfig, methods
from .planning import MemoryPlan, PlanRow, plan_record, plan_rows, this_machine
from .spelling import read_method, spell_method
from .tables import table

_UNITS = {"": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def add_plan(commands: Any, common: argparse.ArgumentParser) -> None:
    """Hook the command into the parser's ``commands``."""
    parser = commands.add_parser(
        "plan", parents=[common], help="predict a model's memory and the longest context that fits",
        description="Predict, without loading it, what a model's weights, cache and running pass take, and "
        "the longest context that fits for every preset.",
    )  # fmt: skip
    parser.add_argument(
        "model", metavar="MODEL",
        help="a model folder, a .gguf file, the OWNER/NAME of a model found on this machine, or 'starter'",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=memory, metavar="SIZE",
        help="memory to plan for, as 16GB or 16GiB (this machine's, or Metal's recommended working set)",
    )  # fmt: skip
    parser.add_argument(
        "--device", choices=("metal", "cpu"), help="where the model is to compute (as it would here)"
    )
    parser.add_argument(
        "--tokens", type=count, metavar="N", help="context to add up the memory for (the model's own)"
    )
    add_method(parser)
    parser.set_defaults(run=run)


def memory(text: str) -> int:
    """Bytes of a size such as ``16GB`` (decimal) or ``16 GiB`` (binary)."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", text.lower())
    unit = _UNITS.get(found[2]) if found else None
    if not found or unit is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write it as 16GB or 16GiB")
    return round(float(found[1]) * unit)


def run(options: argparse.Namespace) -> int:
    """Describe, plan and tell."""
    from .models.describe import describe

    config = read_method(options.method, options.preset, options.set)
    with progress_bar(options.json) as progress:
        info = describe(resolve_model(options.model, progress))
    machine = this_machine(
        options.memory, metal=None if options.device is None else options.device == "metal"
    )
    plan = MemoryPlan.of(info, machine)
    rows = plan_rows(plan, methods(), config)
    tokens = options.tokens or plan.horizon
    print(
        json.dumps(plan_record(plan, rows, config, tokens), indent=2)
        if options.json
        else text(plan, rows, config, tokens)
    )
    return 0


def text(plan: MemoryPlan, rows: list[PlanRow], config: KVCacheConfig, tokens: int) -> str:
    """The plan for a terminal."""
    info, machine, layout = plan.info, plan.machine, plan.info.layout
    where = "Metal" if machine.metal else "CPU float32"
    lines = [
        f"{info.name} on {where}, {_size(machine.memory)} of memory ({machine.words}).",
        "" if layout is None else layout.plan(config).sentence,
        "",
    ]
    need, whole = plan.need(config, tokens), plan.at_16_bits(tokens)
    if need is not None and whole is not None:
        parts = [
            ("weights", need.weights), (f"cache, {spell_method(config)}", need.cache),
            ("running pass", need.working), ("together", need.total),
        ]  # fmt: skip
        lines.append(table([f"at {tokens:,} tokens", "predicted"], [[name, _size(n)] for name, n in parts]))
        lines.append(
            f"The same tokens in 16 bits would take {_size(whole)}; it {_fits(plan, config, tokens)}."
        )
    else:
        lines.append("What its cache takes is unknown: a slot of a kind of its own can't be looked into.")
    lines += [
        "",
        table(
            ["setting", "per 1,000 tokens", "smaller", "longest context", "ended by"],
            [_cells(r) for r in rows],
        ),
    ]
    lines.append(
        f"Predicted. Per 1,000 tokens: the whole cache, averaged over {plan.horizon:,} tokens. Smaller: than "
        "16 bits.\nThe uncompressed caches hold rows in the precision the model computes in"
        f" ({plan.width * 8} bits here)."
    )
    return "\n".join(lines)


def _cells(row: PlanRow) -> list[str]:
    longest = row.longest
    ended = "-" if longest is None else "memory" if longest.by_memory else "the model"
    return [
        row.spelled,
        "-" if row.per_thousand is None else _size(row.per_thousand),
        f"{row.smaller:.1f}" if row.smaller and row.compressed else "-",
        "-" if longest is None else f"{longest.tokens:,}" if longest.tokens else "none",
        ended,
    ]


def _fits(plan: MemoryPlan, config: KVCacheConfig, tokens: int) -> str:
    words = {"fits": "fits", "tight": "fits with little room", "too large": "does not fit"}
    return words.get(plan.fit(config, tokens), "is unknown whether it fits")


def _size(count: float) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 1e9 else f"{count / 1e6:,.2f} MB"
