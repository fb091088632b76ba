"""Comparisons with figures that a test knows."""

from collections.abc import Sequence

from studio.core.compared import Comparison, ReplyComparison
from veloxquant_mlx.compared import ReplyFidelity, SlotFidelity, TokenFidelity
from veloxquant_mlx.config import KVCacheConfig


def reply(
    message: int,
    pieces: Sequence[str],
    ranks: Sequence[int],
    *,
    kl: Sequence[float] | None = None,
    own_ranks: Sequence[int] | None = None,
    start: int = 100,
    offset: int = 0,
    length: int | None = None,
    config: KVCacheConfig | None = None,
) -> ReplyComparison:
    """A reply of these tokens; the uncompressed cache prefers "<n>" at token n."""
    own = own_ranks or [1] * len(pieces)
    values = kl or [0.01] * len(pieces)
    tokens = tuple(
        TokenFidelity(n, values[n], rank, own[n], 0.25, 0.5, rank == own[n], 1000 + n, 0.625)
        for n, rank in enumerate(ranks)
    )
    ends, at = [], offset
    for piece in pieces:
        at += len(piece)
        ends.append(at)
    tops = tuple(f"<{n}>" for n in range(len(pieces)))
    fidelity = ReplyFidelity(start, length or len(pieces), tokens)
    through = config or KVCacheConfig("skvq")
    return ReplyComparison(message, offset, tuple(ends), through, tuple(pieces), tops, fidelity)


def comparison(
    config: KVCacheConfig, *replies: ReplyComparison, errors: Sequence[float | None] = ()
) -> Comparison:
    """Of a conversation that ends with the last reply."""
    last = replies[-1].fidelity
    slots = tuple(SlotFidelity(n, error is not None, error) for n, error in enumerate(errors))
    return Comparison(last.start + last.length, config, replies, slots)
