"""A report put into sections for a reader; every figure keeps its unit and how it was come by."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..telemetry import BYTE_KINDS, KIND_LABELS
from . import charts
from .document import Chart, Document, Fact, Facts, Item, Paragraph, Said, Section, Table
from .words import UNKNOWN, megabytes, number, setting

Report = Mapping[str, Any]

NO_WORDS = "The words of the conversation are not in this report: prompts stay on this machine."
WITH_WORDS = (
    "The words of the conversation are in this report because they were asked for: whoever gets the file can "
    "read them. Nothing was sent anywhere."
)
NOT_COMPARED = (
    "Fidelity was not measured: how far this cache moves the model's answers is not in this report."
)
FITS = {
    "fits": "it fits",
    "tight": "it fits with little room",
    "too large": "it does not fit",
    "unknown": "whether it fits is unknown",
}
"""State of a plan -> words."""
_HISTORY_ROWS = 24


def document(report: Report) -> Document:
    """Everything a report holds, for a reader."""
    return Document(
        title=f"Memory report: {report['model']['name']}",
        lead=_lead(report),
        facts=Facts(tuple(_at_a_glance(report))),
        sections=tuple(_sections(report)),
        closing=closing(report),
    )


def plan_document(told: Mapping[str, Any]) -> Document:
    """A plan by itself, as ``plan_record`` gives it."""
    need, machine = told["need_bytes"], told["machine"]
    facts = [Fact("Memory to use", megabytes(machine["memory"]), machine["words"])]
    if need:
        weights = "measured" if told["weights_measured"] else "predicted"
        facts += [
            Fact("Weights", megabytes(need["weights"]), weights),
            Fact("Cache, as set", megabytes(need["cache"]), "predicted"),
            Fact("Running pass", megabytes(need["working"]), "predicted"),
            Fact("Together", megabytes(need["total"]), f"predicted; {FITS[told['fits']]}"),
            Fact("Cache at 16 bits", megabytes(told["cache_bytes_at_16_bits"]), "counted"),
            Fact("Per 1,000 tokens, as set", megabytes(1000 * need["cache"] / told["tokens"]), "predicted"),
            Fact("Per 1,000 tokens, 16 bits", megabytes(_per_thousand(told)), "counted"),
        ]
    where = "Metal" if machine["metal"] else "the processor, in float32"
    return Document(
        title=f"Memory plan: {told['model']}",
        lead=f"{told['method']} on {where}, at {told['tokens']:,} tokens. {told['slots'] or ''}".strip(),
        facts=Facts(tuple(facts)),
        sections=(Section("Setting by setting", tuple(_presets(told))),),
        closing="Predicted in closed form from the model's configuration; nothing was loaded for it.",
    )


def _per_thousand(told: Mapping[str, Any]) -> float | None:
    whole = told["cache_bytes_at_16_bits"]
    return None if whole is None else 1000 * whole / told["tokens"]


def closing(report: Report) -> str:
    """By what and when it was made."""
    version = report["versions"].get("veloxquant-studio") or "of an unknown version"
    return f"Made by VeloxQuant Studio {version} on {report['created'].replace('T', ' ')}."


def cache_name(report: Report) -> str:
    """Method and preset."""
    method = report["method"]
    return f"{method['label']} {method['preset'] or 'as set'}"


def _lead(report: Report) -> str:
    tokens = report["tokens"]["in_cache"]
    if not tokens:
        return f"{cache_name(report)}. Nothing has been read yet: there are settings and a plan, no figures."
    return f"{cache_name(report)}, {tokens:,} tokens in the cache: {report['ratio']['words']}."


def _at_a_glance(report: Report) -> Iterator[Fact]:
    totals, speeds, memory = report["totals"], report["speeds"], report["memory"]
    yield Fact("Cache, by arithmetic", megabytes(totals["counted_bytes"]["total"]), "counted")
    yield Fact(
        "Cache, in memory", megabytes(totals["resident_bytes_measured"]), "measured, the arrays themselves"
    )
    yield Fact("The same at 16 bits", megabytes(totals["reference_16_bit_bytes_counted"]), "counted")
    ratio = report["ratio"]["times_smaller_than_16_bits_counted"]
    yield Fact("Smaller than 16 bits", number(ratio, 1, "times") if ratio else "not yet", "counted")
    yield Fact("Reading", _speed(speeds["prefill_tokens_per_second_measured"]), "measured")
    yield Fact("Writing", _speed(speeds["decode_tokens_per_second_measured"]), "measured")
    yield Fact(
        "Peak while reading",
        megabytes(memory.get("mlx_peak_prefill_bytes_measured")),
        "measured, weights included",
    )
    yield Fact(
        "Peak while writing",
        megabytes(memory.get("mlx_peak_decode_bytes_measured")),
        "measured, weights included",
    )


def _sections(report: Report) -> Iterator[Section]:
    yield Section("Memory", tuple(_memory(report)))
    yield Section("Speed", tuple(_speeds(report)))
    yield Section("Fidelity", tuple(_fidelity(report)))
    yield Section("Method", tuple(_method(report)))
    yield Section("Slots", tuple(_slots(report)))
    if report.get("prediction"):
        yield Section("What fits", tuple(_prediction(report["prediction"])))
    yield Section("Model", (_pairs(_model(report)),))
    yield Section("Machine and versions", (_pairs(_machine(report)),))
    yield Section("History", tuple(_history(report["history"])))
    yield Section("Conversation", tuple(_conversation(report)))
    yield Section(
        "What the figures are",
        (Table.of(("figure", "unit, and how it was come by"), sorted(report["units"].items())),),
    )


def _memory(report: Report) -> Iterator[Item]:
    chart = charts.memory_chart(report["history"])
    last = report["tokens"]["in_cache"]
    if chart is not None:
        totals = report["totals"]
        yield Chart("Bytes of the whole cache over its tokens", chart, (
            f"At {last:,} tokens the cache takes {megabytes(totals['counted_bytes']['total'])} counted, "
            f"{megabytes(totals['resident_bytes_measured'])} measured, against "
            f"{megabytes(totals['reference_16_bit_bytes_counted'])} at 16 bits."
        ))  # fmt: skip
    else:
        yield Paragraph("There is no course over tokens yet: nothing has been read.")
    counted = report["totals"]["counted_bytes"]
    rows = [(KIND_LABELS[kind], megabytes(counted[kind]), _exact(counted[kind])) for kind in BYTE_KINDS]
    rows.append(("all", megabytes(counted["total"]), _exact(counted["total"])))
    yield Table.of(("kind of bytes", "counted", "bytes"), rows, (1, 2), total=True)
    memory = report["memory"]
    yield _pairs(
        [
            ("MLX's active memory now, measured", megabytes(memory["mlx_active_bytes_measured"])),
            ("Its peak since the last reply began, measured", megabytes(memory["mlx_peak_bytes_measured"])),
        ]
    )


def _speeds(report: Report) -> Iterator[Item]:
    speeds, reference = report["speeds"], report["speeds"].get("reference")
    head = ["measured", cache_name(report)]
    rows = [
        ["reading the prompt", _speed(speeds["prefill_tokens_per_second_measured"])],
        ["writing the reply", _speed(speeds["decode_tokens_per_second_measured"])],
    ]
    if reference:
        head.append("16-bit cache")
        rows[0].append(_speed(reference["prefill_tokens_per_second_measured"]))
        rows[1].append(_speed(reference["decode_tokens_per_second_measured"]))
    yield Table.of(head, rows, range(1, len(head)))
    if reference:
        yield Paragraph(
            f"The uncompressed cache wrote its reply in the same session with {reference['tokens']:,} tokens "
            f"held; this one holds {report['tokens']['in_cache']:,}. A longer cache is slower."
        )
    else:
        yield Paragraph(
            "The 16-bit cache was not run in this session, so there is no speed to set beside it."
        )


def _fidelity(report: Report) -> Iterator[Item]:
    found = report.get("fidelity")
    if not found:
        yield Paragraph(NOT_COMPARED)
        return
    kl = found["kl_nats_per_token"]
    yield _pairs(
        [
            ("Tokens compared with the uncompressed cache, counted", f"{found['tokens']:,}"),
            *([("Written through", ", then ".join(found["through"]))] if found.get("through") else []),
            ("KL(uncompressed || this cache), mean, measured", number(kl["mean"], 4, "nats per token")),
            ("The same, 99th percentile, measured", number(kl.get("p99"), 4, "nats per token")),
            ("Same first choice, measured", _share(found["same_first_choice"])),
        ]
    )
    chart = charts.kl_chart(found.get("kl_of_every_token") or ())
    if chart is not None:
        yield Chart("KL of every token of the replies", chart, "Higher stems: answers moved further.")
    errors = charts.errors_chart(found.get("slots") or ())
    if errors is not None:
        through = found.get("slots_through")
        under = f" under {through}" if through else ""
        words = f"Relative error of what each slot hands on{under}, against the exact rows, measured."
        yield Chart("Error of every slot's attention output", errors, words)


def _method(report: Report) -> Iterator[Item]:
    method = report["method"]
    source = f" ({method['paper']})" if method.get("paper") else ""
    yield Paragraph(f"{method['label']}{source}. {method['summary']}")
    yield Table.of(("parameter", "value", "default", "what it does"), [
        (
            told["label"],
            _with_unit(told["value"], told["unit"]),
            _with_unit(told["default"], told["unit"]),
            " ".join([told["help"], *_inactive(told)]),
        )
        for told in method["parameters"].values()
    ])  # fmt: skip


def _slots(report: Report) -> Iterator[Item]:
    yield Paragraph(report["plan"]["sentence"])
    chart = charts.slots_chart(report["slots"])
    if chart is not None:
        yield Chart(
            "Bytes of every slot",
            chart,
            "Each bar is a slot of the model's cache list; the dashed line is 16 bits.",
        )
    held = {slot["slot"]: slot for slot in report["slots"]}
    kinds = [k for k in BYTE_KINDS if any(slot["counted_bytes"][k] for slot in report["slots"])]
    head = ["slot", *(KIND_LABELS[kind] for kind in kinds), "counted", "resident", "16 bits", "what it does"]
    rows = []
    for planned in report["plan"]["slots"]:
        slot = held.get(planned["slot"])
        figures = [UNKNOWN] * (len(kinds) + 3) if slot is None else [
            *(_exact(slot["counted_bytes"][kind]) for kind in kinds),
            _exact(slot["counted_bytes"]["total"]),
            _exact(slot["resident_bytes_measured"]),
            _exact(slot["reference_16_bit_bytes_counted"]),
        ]  # fmt: skip
        does = planned["reason"].removeprefix(f"Slot {planned['slot']} ").rstrip(".")
        rows.append([str(planned["slot"]), *figures, does])
    yield Table.of(head, rows, range(len(head) - 1))
    yield Paragraph("Bytes. Counted from what the slot holds; resident measured, the arrays' own size.")


def _prediction(told: Mapping[str, Any]) -> Iterator[Item]:
    need, machine = told["need_bytes"], told["machine"]
    yield Paragraph(
        f"Predicted for {megabytes(machine['memory'])} of memory ({machine['words']}) and "
        f"{told['tokens']:,} tokens."
    )
    if need:
        weights = "measured" if told["weights_measured"] else "predicted"
        yield _pairs(
            [
                (f"Weights, {weights}", megabytes(need["weights"])),
                ("Cache under this setting, predicted", megabytes(need["cache"])),
                ("The same tokens at 16 bits, counted", megabytes(told["cache_bytes_at_16_bits"])),
                ("Running pass, predicted", megabytes(need["working"])),
                ("Together", megabytes(need["total"])),
            ]
        )
    yield from _presets(told)


def _presets(told: Mapping[str, Any]) -> Iterator[Item]:
    """What every setting takes, and the longest context that fits, as charts and as a table."""
    needs = charts.need_chart(told["presets"], told["tokens"])
    if needs is not None:
        words = f"Predicted; {megabytes(told['machine']['memory'])} may be used ({told['machine']['words']})."
        yield Chart(f"What each setting takes at {told['tokens']:,} tokens", needs, words)
    chart = charts.longest_chart(told["presets"], told.get("context"))
    if chart is not None:
        yield Chart("The longest context that fits", chart, "Predicted.")
    rows = []
    for row in told["presets"]:
        longest = row["longest_context"]
        ended = UNKNOWN if longest is None else "memory" if longest["by_memory"] else "the model"
        smaller = row["times_smaller_than_16_bits"] if row["compressed_slots"] else None
        rows.append(
            (
                row["method"],
                megabytes(row["bytes_per_1000_tokens"]),
                number(smaller, 1) if smaller else "",
                UNKNOWN if longest is None else f"{longest['tokens']:,}",
                ended,
            )
        )
    head = ("setting", "per 1,000 tokens", "times smaller", "longest context, tokens", "ended by")
    yield Table.of(head, rows, (1, 2, 3))
    yield Paragraph(
        f"Predicted. Per 1,000 tokens is an average over {told['averaged_over_tokens']:,} tokens."
    )


def _model(report: Report) -> Iterator[tuple[str, str]]:
    model = report["model"]
    yield "Name", model["name"]
    yield "Folder", model["folder"]
    yield "Where from", str(model["source"])
    yield "Architecture", str(model["architecture"]) or UNKNOWN
    yield "Parameters, counted", number(model["parameters"])
    yield "Bits per weight, counted", number(model["weight_bits"])
    yield "Weight files, measured", megabytes(model["size_bytes"])
    yield "Context, tokens", number(model.get("context"))
    yield (
        "Cache slots",
        f"{number(model.get('slots'))}, of which {number(model.get('kv_slots'))} hold plain keys and values",
    )
    yield "Computes in", model["compute"]


def _machine(report: Report) -> Iterator[tuple[str, str]]:
    machine = report["machine"]
    yield "System", machine["platform"]
    yield "Processor", machine["processor"] or UNKNOWN
    yield "Cores", number(machine["cores"])
    yield "Physical memory, measured", megabytes(machine["memory_bytes"])
    yield "MLX computes on", machine["mlx_device"] or UNKNOWN
    for name, version in report["versions"].items():
        yield name, version or UNKNOWN


def _history(history: Mapping[str, Sequence[float | None]]) -> Iterator[Item]:
    count = len(history["tokens"])
    if not count:
        yield Paragraph("Nothing has been read yet.")
        return
    places = sorted({round(n * (count - 1) / (_HISTORY_ROWS - 1)) for n in range(_HISTORY_ROWS)})
    rows = [
        (
            number(history["tokens"][at]),
            number(history["frontier"][at]),
            megabytes(sum(history[kind][at] or 0 for kind in BYTE_KINDS)),
            megabytes(history["resident"][at]),
            megabytes(history["reference"][at]),
            megabytes(history["active_memory"][at]),
        )
        for at in places
    ]
    head = ("tokens", "frontier", "counted", "resident, measured", "16 bits, counted", "MLX active, measured")
    yield Table.of(head, rows, range(6))
    yield Paragraph(
        f"{len(places):,} of {count:,} rows that were kept; the report's JSON and CSV files have all of them."
    )


def _conversation(report: Report) -> Iterator[Item]:
    said = report.get("transcript")
    if said is None:
        yield Paragraph(NO_WORDS)
        return
    yield Paragraph(WITH_WORDS)
    names = {"user": "You", "assistant": "Model", "system": "System prompt"}
    for turn in said:
        yield Said(names[turn["role"]], turn["content"])


def _pairs(pairs: Any) -> Table:
    return Table.of(("", ""), [(label, value) for label, value in pairs])


def _with_unit(value: object, unit: str) -> str:
    said = setting(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{said} {unit}".strip() if is_number else said


def _inactive(told: Mapping[str, Any]) -> list[str]:
    return [f"Without effect now: {told['inactive']}"] if told.get("inactive") else []


def _exact(count: int) -> str:
    return f"{count:,}"


def _speed(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f} tokens/s"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"
