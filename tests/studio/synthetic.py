"""Snapshots and steps that follow SKVQ's arithmetic, for tests without a model."""

from collections.abc import Iterator
from functools import lru_cache

from studio.core.history import History
from veloxquant_mlx.steps import FinishedStep, Plan, PrefillStep, SlotPlan, Step, TokenStep
from veloxquant_mlx.telemetry import ByteCount, CacheSnapshot, HeadBasis, LayerStats

WEIGHTS = 540_000_000
_WINDOW = ("keeps a 512-token window of its own", "keep a 512-token window of their own")


@lru_cache(maxsize=4096)
def basis(slot: int, head: int, dim: int = 64) -> HeadBasis:
    """What a head froze: energy that falls faster in some heads than in others, 95 % of it kept."""
    fall = 0.80 + 0.15 * ((slot * 7 + head * 5) % 11) / 10
    shares = [fall**channel for channel in range(dim)]
    spectrum = tuple(share / sum(shares) for share in shares)
    rank = next(n for n in range(1, dim + 1) if sum(spectrum[:n]) >= 0.95 or n == dim)
    return HeadBasis(rank, spectrum, tuple(8 >> min(3, channel * 4 // rank) for channel in range(rank)))


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
    ranked: bool = False,
) -> CacheSnapshot:
    """The cache list of ``slots`` slots at ``tokens`` tokens; slots in ``foreign`` are sliding windows.

    ``ranked`` gives every head a basis from the first token on and a drift from the first flush on.
    """
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
        based = ranked and tokens > 0 and slot not in foreign
        layers.append(
            LayerStats(
                slot=slot,
                replaced=slot not in foreign,
                counted=counted,
                resident_bytes=counted.total + counted.total // 100 + (4096 if tokens else 0),
                reference_bytes=theirs.total if slot in foreign else row * tokens,
                tokens=tokens,
                gauges={} if slot in foreign else gauges,
                heads=tuple(basis(slot, head, dim) for head in range(heads)) if based else (),
                drift=tuple(0.01 * (head + 1) + 1e-6 * frontier for head in range(heads))
                if based and frontier
                else (),
            )
        )
    resident = sum(layer.resident_bytes for layer in layers)
    return CacheSnapshot(tokens, tuple(layers), WEIGHTS + resident, WEIGHTS + resident + 20_000_000)


def plan(slots: int = 30, foreign: frozenset[int] = frozenset()) -> Plan:
    """The plan that goes with ``snapshot``."""
    return Plan(
        tuple(
            SlotPlan(slot, False, *_WINDOW)
            if slot in foreign
            else SlotPlan(slot, True, "hands keys and values to SKVQ")
            for slot in range(slots)
        )
    )


def reply(
    start: int, prompt: int, new: int, *, chunk: int = 512, slots: int = 30, **kw: object
) -> Iterator[Step]:
    """The steps of one reply on a cache that already holds ``start`` tokens."""
    read = 0
    for done in [*range(0, prompt, chunk), prompt]:
        words = tuple(f" p{start + at}" for at in range(read, done))
        yield PrefillStep(done, prompt, snapshot(start + done, slots, **kw), words)  # type: ignore[arg-type]
        read = done
    for count in range(1, new + 1):
        at = start + prompt + count
        yield TokenStep("a", 1, count, snapshot(at, slots, **kw), (f" r{at - 1}",))  # type: ignore[arg-type]
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
