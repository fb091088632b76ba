"""Snapshots and steps that follow SKVQ's arithmetic, for tests without a model."""

from collections.abc import Iterator

from studio.core.history import History
from veloxquant_mlx.steps import FinishedStep, Plan, PrefillStep, SlotPlan, Step, TokenStep
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot, LayerStats

WEIGHTS = 540_000_000


def snapshot(
    tokens: int,
    slots: int = 30,
    *,
    bits: tuple[int, int] = (3, 2),
    heads: int = 3,
    dim: int = 64,
    group: int = 64,
    window: int = 128,
    sinks: int = 4,
    foreign: frozenset[int] = frozenset(),
    foreign_rows: int = 512,
) -> CacheSnapshot:
    """The cache list of ``slots`` slots at ``tokens`` tokens; slots in ``foreign`` are sliding windows."""
    row = heads * 2 * dim * 2
    frontier = window * (tokens // window)
    kept = min(sinks, frontier)
    flushed = frontier - kept
    ours = ByteCount(
        codes=heads * flushed * dim * sum(bits) // 8,
        parameters=heads * flushed * 2 * -(-dim // group) * 2 * 2,
        exact=row * (tokens - frontier),
        sinks=row * kept,
        side=2 * heads * dim * 4 if frontier else 0,
    )
    theirs = ByteCount(foreign=row * min(tokens, foreign_rows))
    gauges = {"frontier": float(frontier), "sinks": float(kept)}
    layers = []
    for slot in range(slots):
        counted = theirs if slot in foreign else ours
        layers.append(
            LayerStats(
                slot=slot,
                replaced=slot not in foreign,
                counted=counted,
                resident_bytes=counted.total + counted.total // 100 + (4096 if tokens else 0),
                reference_bytes=theirs.total if slot in foreign else row * tokens,
                tokens=tokens,
                gauges={} if slot in foreign else gauges,
            )
        )
    resident = sum(layer.resident_bytes for layer in layers)
    return CacheSnapshot(tokens, tuple(layers), WEIGHTS + resident, WEIGHTS + resident + 20_000_000)


def plan(slots: int = 30, foreign: frozenset[int] = frozenset()) -> Plan:
    """The plan that goes with ``snapshot``."""
    return Plan(
        tuple(
            SlotPlan(slot, False, "a sliding window of 512 tokens stays as the model made it")
            if slot in foreign
            else SlotPlan(slot, True, "a plain KV cache")
            for slot in range(slots)
        )
    )


def reply(
    start: int, prompt: int, new: int, *, chunk: int = 512, slots: int = 30, **kw: object
) -> Iterator[Step]:
    """The steps of one reply on a cache that already holds ``start`` tokens."""
    for done in [*range(0, prompt, chunk), prompt]:
        yield PrefillStep(done, prompt, snapshot(start + done, slots, **kw))  # type: ignore[arg-type]
    for count in range(1, new + 1):
        yield TokenStep("a", 1, count, snapshot(start + prompt + count, slots, **kw))  # type: ignore[arg-type]
    last = snapshot(start + prompt + new, slots, **kw)  # type: ignore[arg-type]
    yield FinishedStep("stop", "a" * new, prompt, new, prompt / 180, (new - 1) / 14, last)


def history(turns: tuple[tuple[int, int], ...] = ((300, 200),), *, slots: int = 30, **kw: object) -> History:
    """A conversation of (prompt tokens, reply tokens) turns."""
    kept, start = History(), 0
    for prompt, new in turns:
        for step in reply(start, prompt, new, slots=slots, **kw):  # type: ignore[arg-type]
            kept.append(step)
        start += prompt + new
    return kept
