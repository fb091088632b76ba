"""A measurement as text: tables for the screen, rows for a spreadsheet."""

import csv
import io
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from .fidelity import Measurement, MethodFidelity, Phase, SideFidelity
from .tables import table

_MEGA = 1e6


def tables(found: Measurement) -> str:
    """Answers, memory and speed of every cache; each slot where slots were compared."""
    parts = [_answers(found), _memory(found), _speed(found)]
    parts += [_slots(method) for method in found.methods if method.slots]
    parts += [f"{method.name} left the run: {method.problem}" for method in found.methods if method.problem]
    return "\n\n".join(parts)


def _answers(found: Measurement) -> str:
    head = ["answers", "KL mean", "median", "99 %", "same top-1", "perplexity"]
    rows = [
        [
            _name(found, row),
            *(_cell(row.kl, lambda kl: f"{kl.mean:.4f}"), _cell(row.kl, lambda kl: f"{kl.median:.4f}")),
            _cell(row.kl, lambda kl: f"{kl.p99:.4f}"),
            _cell(row.same_top1, lambda share: f"{share:.1%}".replace("%", " %")),
            _cell(row.perplexity, lambda value: f"{value:.3f}"),
        ]
        for row in found.rows
    ]
    return f"{table(head, rows)}\n" + (
        f"Measured over {found.reference.positions:,} positions. KL(reference || cache) in nats per token;\n"
        "perplexity at the real next token."
    )


def _memory(found: Measurement) -> str:
    head = ["memory, MB", "counted", "resident", "grown", "ratio", "prefill peak", "decode peak"]
    rows = [
        [
            _name(found, row),
            *(
                f"{size / _MEGA:.2f}" if row.tokens else "-"
                for size in (row.counted.total, row.resident_bytes, row.memory_growth)
            ),
            f"{row.reference_bytes / row.counted.total:.2f}" if row.counted.codes else "-",
            *(_cell(phase, lambda p: f"{p.peak_memory / _MEGA:.1f}") for phase in (row.prefill, row.decode)),
        ]
        for row in found.rows
    ]
    return f"{table(head, rows)}\n" + (
        f"After the text, which takes {found.reference.reference_bytes / _MEGA:.2f} MB at 16 bits; ratio is "
        "that over counted.\nCounted: in closed form. Measured: resident (the arrays' own size), grown\n"
        "(MLX's active memory), peak (cache and running pass together, weights left out)."
    )


def _speed(found: Measurement) -> str:
    head = ["speed, tokens/s", "prefill", "of reference", "decode", "of reference"]
    rows = [
        [
            _name(found, row),
            *(cell for phase in (row.prefill, row.decode) for cell in _speed_cells(phase)),
        ]
        for row in found.rows
    ]
    taken = found.reference.decode
    steps = f"{taken.tokens:,} single tokens, with their logits" if taken else "not measured"
    return f"{table(head, rows)}\n" + (
        "Measured in turns, pass by pass. Prefill: until every slot's state is there, no logits.\n"
        f"Decode: {steps}; {found.attention}."
    )


def _slots(method: MethodFidelity) -> str:
    head = [f"slots of {method.name}", "attention error", "key bits", "limit", "above"]
    head += ["value bits", "limit", "above"]
    rows = [
        [
            str(slot.slot) if slot.replaced else f"{slot.slot} not ours",
            _percent(slot.attention_error),
            *_side(slot.keys),
            *_side(slot.values),
        ]
        for slot in method.slots
    ]
    rows.append(
        [
            "mean",
            _percent(_mean([slot.attention_error for slot in method.slots])),
            *_mean_side([slot.keys for slot in method.slots]),
            *_mean_side([slot.values for slot in method.slots]),
        ]
    )
    return f"{table(head, rows)}\n" + (
        "Measured, each slot fed the reference's own rows. Attention error: relative, over the last block's\n"
        "queries. Bits: per coded element, parameters and side data included. Limit: reverse water-filling\n"
        "on the covariance of the rows at the same mean squared error."
    )


def csv_text(found: Measurement) -> str:
    """One row per cache, the reference first; units are in the names, empty is unknown."""
    out = io.StringIO()
    rows = [_row(found, row) for row in found.rows]
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(found: Measurement, row: MethodFidelity) -> dict[str, Any]:
    def phase(name: str, taken: Phase | None) -> dict[str, Any]:
        return {
            f"{name}_tokens_per_second": taken.speed if taken else None,
            f"{name}_ratio": taken.ratio if taken else None,
            f"{name}_peak_bytes": taken.peak_memory if taken else None,
        }

    return {
        "method": row.name,
        "is_reference": row is found.reference,
        "complete": found.complete and row.problem is None,
        "tokens": row.tokens,
        "positions": row.positions,
        "kl_mean_nats": row.kl.mean if row.kl else None,
        "kl_median_nats": row.kl.median if row.kl else None,
        "kl_p99_nats": row.kl.p99 if row.kl else None,
        "same_top1_share": row.same_top1,
        "perplexity": row.perplexity,
        "counted_bytes": row.counted.total,
        "resident_bytes": row.resident_bytes,
        "memory_growth_bytes": row.memory_growth,
        "bytes_at_16_bits": row.reference_bytes,
        **phase("prefill", row.prefill),
        **phase("decode", row.decode),
        "attention_error_mean": _mean([slot.attention_error for slot in row.slots]),
        "key_bits_above_limit_mean": _mean_distance([slot.keys for slot in row.slots]),
        "value_bits_above_limit_mean": _mean_distance([slot.values for slot in row.slots]),
        "problem": row.problem,
    }


def _name(found: Measurement, row: MethodFidelity) -> str:
    return f"{row.name} (reference)" if row is found.reference else row.name


def _cell(value: Any, words: Callable[[Any], str]) -> str:
    return "-" if value is None else words(value)


def _speed_cells(phase: Phase | None) -> list[str]:
    return ["-", "-"] if phase is None else [f"{phase.speed:.1f}", f"{phase.ratio:.3f}"]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}".replace("%", " %")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _mean_distance(sides: Sequence[SideFidelity | None]) -> float | None:
    return _mean([side.distance for side in sides if side is not None])


def _side(side: SideFidelity | None) -> list[str]:
    if side is None:
        return ["-", "-", "-"]
    return [f"{side.bits:.2f}", f"{side.limit_bits:.2f}", f"{side.distance:.2f}"]


def _mean_side(sides: Sequence[SideFidelity | None]) -> list[str]:
    known = [side for side in sides if side is not None]
    if not known:
        return ["-", "-", "-"]
    columns = zip(*((side.bits, side.limit_bits, side.distance) for side in known), strict=True)
    return [f"{fmean(column):.2f}" for column in columns]
