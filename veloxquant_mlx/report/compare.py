"""Two reports side by side."""

from collections.abc import Iterator, Mapping
from typing import Any

from . import charts
from .content import cache_name, closing
from .document import Chart, Document, Fact, Facts, Item, Paragraph, Section, Table
from .words import UNKNOWN, megabytes, number, setting

Report = Mapping[str, Any]

NOT_MEASURED = "not measured"


def comparison(first: Report, second: Report) -> Document:
    """What differs between two reports, and by how much."""
    names = _names(first, second)
    return Document(
        title="Two memory reports compared",
        lead=f"A: {names[0]}, {_when(first)}. B: {names[1]}, {_when(second)}.",
        facts=Facts(tuple(_at_a_glance(first, second))),
        sections=(
            Section("Figures", tuple(_figures(first, second))),
            Section("Settings", tuple(_settings(first, second))),
            Section("Memory over tokens", tuple(_courses(first, second, names))),
            Section("Slots", tuple(_slots(first, second, names))),
            Section("Where they were made", (_places(first, second),)),
        ),
        closing=f"A: {closing(first)} B: {closing(second)}",
    )


def _names(first: Report, second: Report) -> tuple[str, str]:
    names = [f"{r['model']['name']}, {cache_name(r)}" for r in (first, second)]
    return names[0], names[1]


def _when(report: Report) -> str:
    return f"{report['created'][:16].replace('T', ' ')}, {report['tokens']['in_cache']:,} tokens"


def _at_a_glance(first: Report, second: Report) -> Iterator[Fact]:
    per = [_per_thousand(report) for report in (first, second)]
    if per[0] and per[1]:
        yield Fact("B takes, per token", f"{per[1] / per[0]:.2f} times A", "of counted bytes")
    speeds = [r["speeds"]["decode_tokens_per_second_measured"] for r in (first, second)]
    if speeds[0] and speeds[1]:
        yield Fact("B writes", f"{speeds[1] / speeds[0]:.2f} times as fast", "measured")
    kl = [(r.get("fidelity") or {}).get("kl_nats_per_token", {}).get("mean") for r in (first, second)]
    if kl[0] is not None and kl[1] is not None:
        yield Fact("B moves the answers", f"{kl[1] - kl[0]:+.4f} nats per token", "KL, measured")


def _per_thousand(report: Report) -> float | None:
    tokens = report["tokens"]["in_cache"]
    return report["totals"]["counted_bytes"]["total"] / tokens * 1000 if tokens else None


def _figures(first: Report, second: Report) -> Iterator[Item]:
    differs = first["model"]["name"] != second["model"]["name"]
    if differs or first["tokens"]["in_cache"] != second["tokens"]["in_cache"]:
        what = "different models" if differs else "different numbers of tokens"
        yield Paragraph(f"The two were made with {what}: compare what is said per token, not the sums.")

    def memory(name: str) -> list[str]:
        return [megabytes(report["memory"].get(name)) for report in (first, second)]

    def speed(name: str) -> list[str]:
        return [number(report["speeds"][name], 1, "tokens/s") for report in (first, second)]

    kl, same, through = [], [], []
    for found in (report.get("fidelity") for report in (first, second)):
        kl.append(number(found["kl_nats_per_token"]["mean"], 4, "nats per token") if found else NOT_MEASURED)
        same.append(f"{100 * found['same_first_choice']:.1f} %" if found else NOT_MEASURED)
        through.append(", then ".join(found.get("through") or ()) or "not told" if found else NOT_MEASURED)
    both = (first, second)
    rows = [
        ["Tokens in the cache, counted", *(f"{r['tokens']['in_cache']:,}" for r in both)],
        ["Cache, counted", *(megabytes(r["totals"]["counted_bytes"]["total"]) for r in both)],
        ["Cache, measured", *(megabytes(r["totals"]["resident_bytes_measured"]) for r in both)],
        ["At 16 bits, counted", *(megabytes(r["totals"]["reference_16_bit_bytes_counted"]) for r in both)],
        ["Per 1,000 tokens, counted", *(megabytes(_per_thousand(r)) for r in both)],
        ["Times smaller than 16 bits, counted", *(_ratio(r) for r in both)],
        ["Reading, measured", *speed("prefill_tokens_per_second_measured")],
        ["Writing, measured", *speed("decode_tokens_per_second_measured")],
        ["Peak while reading, measured", *memory("mlx_peak_prefill_bytes_measured")],
        ["Peak while writing, measured", *memory("mlx_peak_decode_bytes_measured")],
        ["KL, mean, measured", *kl],
        ["Same first choice, measured", *same],
        ["Both of answers written through", *through],
    ]
    yield Table.of(("figure", "A", "B"), rows, (1, 2))


def _ratio(report: Report) -> str:
    return number(report["ratio"]["times_smaller_than_16_bits_counted"], 1)


def _settings(first: Report, second: Report) -> Iterator[Item]:
    left, right = (report["method"]["parameters"] for report in (first, second))
    rows: list[tuple[str, ...]] = [("Method", cache_name(first), cache_name(second))]
    for name in dict.fromkeys([*left, *right]):
        pair = [told.get(name) for told in (left, right)]
        values = ["not a parameter of it" if told is None else setting(told["value"]) for told in pair]
        if values[0] != values[1]:
            label = next(told["label"] for told in pair if told is not None)
            rows.append((label, *values))
    yield Table.of(("setting", "A", "B"), rows)
    if len(rows) == 1:
        yield Paragraph("Both used the same settings.")


def _courses(first: Report, second: Report, names: tuple[str, str]) -> Iterator[Item]:
    for letter, name, report in zip("AB", names, (first, second), strict=True):
        chart = charts.memory_chart(report["history"])
        if chart is None:
            yield Paragraph(f"{letter} has no course over tokens: nothing had been read.")
        else:
            yield Chart(f"{letter}: {name}", chart, "Bytes of the whole cache over its tokens.")


def _slots(first: Report, second: Report, names: tuple[str, str]) -> Iterator[Item]:
    yield Paragraph(f"A: {first['plan']['sentence']} B: {second['plan']['sentence']}")
    for letter, name, report in zip("AB", names, (first, second), strict=True):
        chart = charts.slots_chart(report["slots"])
        if chart is not None:
            yield Chart(f"{letter}, slots: {name}", chart, "Bytes of every slot against 16 bits.")


def _places(first: Report, second: Report) -> Table:
    rows = [
        ("Computes in", *(r["model"]["compute"] for r in (first, second))),
        ("System", *(r["machine"]["platform"] for r in (first, second))),
        ("Processor", *(r["machine"]["processor"] or UNKNOWN for r in (first, second))),
        ("Physical memory, measured", *(megabytes(r["machine"]["memory_bytes"]) for r in (first, second))),
    ]
    for name in dict.fromkeys([*first["versions"], *second["versions"]]):
        rows.append((name, *(r["versions"].get(name) or UNKNOWN for r in (first, second))))
    return Table.of(("place", "A", "B"), rows)
