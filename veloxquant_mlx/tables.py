"""The command line's tables; every column says its unit and whether it is counted or measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .config import KVCacheConfig
from .steps import FinishedStep
from .telemetry import BYTE_KINDS, KIND_LABELS, CacheSnapshot

if TYPE_CHECKING:
    from .models.find import ModelInfo


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; cells that look like numbers stand to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    right = [
        all(not row[i] or row[i][0].isdigit() or row[i] == "-" for row in rows) for i in range(len(head))
    ]
    lines = []
    for row in [head, ["─" * width for width in widths], *rows]:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def slot_table(snapshot: CacheSnapshot) -> str:
    """Bytes of every slot by kind, with a closing line of totals."""
    kinds = [k for k in BYTE_KINDS if any(getattr(layer.counted, k) for layer in snapshot.layers)]
    head = ["slot", *(KIND_LABELS[k] for k in kinds), "counted", "resident", "16-bit", "ratio", "frontier"]

    def cells(name: str, counted: dict[str, int], resident: int, reference: int, frontier: str) -> list[str]:
        total = sum(counted.values())
        ratio = f"{reference / total:.2f}" if total and counted.get("codes") else "-"
        numbers = [*(counted[k] for k in kinds), total, resident, reference]
        return [name, *(f"{n:,}" for n in numbers), ratio, frontier]

    rows = [
        cells(
            str(layer.slot),
            layer.counted.as_dict(),
            layer.resident_bytes,
            layer.reference_bytes,
            f"{layer.gauges['frontier']:,.0f}" if "frontier" in layer.gauges else "-",
        )
        for layer in snapshot.layers
    ]
    total = snapshot.counted.as_dict()
    rows.append(cells("all", total, snapshot.resident_bytes, snapshot.reference_bytes, "-"))
    note = (
        "Bytes. Counted: from what the cache holds, in closed form. Resident: measured, the arrays' own size."
    )
    return table(head, rows) + "\n" + note


def figures_line(finished: FinishedStep) -> str:
    """Speed, size and ratio of a reply in one line."""
    snapshot = finished.snapshot
    parts = [f"{finished.prompt_tokens:,} prompt tokens read"]
    if finished.prefill_speed is not None:
        parts[0] += f" at {finished.prefill_speed:,.1f} tokens/s"
    reuse = finished.reuse
    if reuse is not None and reuse.again:
        parts[0] += f", {reuse.again:,} of them again"
    if reuse is not None and reuse.kept:
        parts[0] += f", {reuse.kept:,} more were in the cache"
    parts.append(f"{finished.reply_tokens:,} written")
    if finished.decode_speed is not None:
        parts[1] += f" at {finished.decode_speed:,.1f} tokens/s"
    parts.append(
        f"cache {snapshot.resident_bytes / 1e6:.1f} MB resident against "
        f"{snapshot.reference_bytes / 1e6:.1f} MB at 16 bits"
    )
    ratio = snapshot.ratio
    parts.append(
        "nothing compressed yet" if ratio is None else f"{ratio:.1f} times smaller, counted end to end"
    )
    return "; ".join(parts) + "."


def model_table(found: Sequence["ModelInfo"]) -> str:
    """One line a model; a model that cannot be used says why below the table."""
    head = ["name", "architecture", "parameters", "bits", "size", "context", "KV slots", "where"]
    rows = [
        [
            model.name,
            model.architecture or "-",
            f"{model.parameters / 1e6:,.0f} M" if model.parameters else "-",
            f"{model.weight_bits:.1f}" if model.weight_bits else "-",
            f"{model.size_bytes / 1e6:,.0f} MB",
            f"{model.context:,}" if model.context else "-",
            f"{model.kv_slots} of {model.slots}" if model.slots is not None else "-",
            f"{model.source}: {model.path}",
        ]
        for model in found
    ]
    problems = [f"{model.name}: {model.problem}" for model in found if model.problem]
    return "\n".join([table(head, rows), *problems])


def method_text(key: str, declared: type[KVCacheConfig]) -> str:
    """A method with its parameters and presets."""
    head = f"{key}: {declared.label}. {declared.summary}"
    if declared.paper:
        head += f" ({declared.paper})"
    lines = [head]
    for spec in declared.fields():
        p = spec.param
        span = (
            ", ".join(map(str, p.choices))
            if p.choices
            else f"{p.low:g} to {p.high:g}"
            if p.low is not None and p.high is not None
            else "true, false"
        )
        lines.append(f"  {spec.name} = {spec.default}   [{span}] {p.unit}".rstrip())
        lines.append(f"      {p.help}")
    for name, values in declared.presets.items():
        told = ", ".join(f"{k}={v}" for k, v in values.items()) or "the defaults"
        lines.append(f"  preset {name}: {told}")
    return "\n".join(lines)
