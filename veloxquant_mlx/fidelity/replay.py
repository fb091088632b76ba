"""What the uncompressed cache would have said: a conversation read once more, and its replies compared.

The compressed side is not computed again. A reply is written token by token; read again in blocks, the rows
of a block would see one another exactly and the frontier would stand elsewhere: other distributions than
those the reply was chosen from. ``generate`` therefore hands those out as it goes and ``KeptRows`` keeps
them, exact but for the 16 bits of a log-probability (about 1e-6 nats of KL). The uncompressed side has no
frontier, so it may be read in blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np

from ..builder import KVCacheBuilder
from ..compared import ReplyFidelity, TokenFidelity
from ..config import KVCacheConfig
from ..errors import VeloxQuantError
from .capture import Query, arrays_of, recording, seeing
from .kept import KeptRows
from .score import score
from .slots import Rows, exact_rows

BLOCK = 128
"""Tokens per pass. Whoever interrupts waits for one of them."""
QUERIES = 32
"""Newest tokens whose queries are recorded, at most: the last pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """A reply as it was made."""

    start: int
    """Tokens before its first one."""
    tokens: tuple[int, ...]
    rows: KeptRows

    @property
    def compared(self) -> int:
        """Tokens that can be compared: a very long reply is kept only in part."""
        return min(len(self.tokens), self.rows.count)


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """Tokens read so far through the uncompressed cache."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """The end of a replay: the replies compared, and the exact rows that nothing was lost of."""

    replies: tuple[ReplyFidelity, ...]
    bounds: tuple[int, ...]
    """Where passes began and ended."""
    rows: list[Rows | None] = field(repr=False)
    queries: dict[int, Query] = field(repr=False)
    """Of the last pass, by slot."""
    seen: dict[int, mx.array] = field(repr=False)
    """Some of the queries of the first tokens, by slot, see ``seeing``."""


def replay(
    model: Any, tokens: Sequence[int], replies: Sequence[Spoken], *, block: int = BLOCK
) -> Iterator[ReplayStep | Replayed]:
    """Read a conversation through an uncompressed cache of its own and compare replies in it.

    Args:
        tokens: the whole conversation. replies: in it, in order, without overlap.

    Yields a ReplayStep after each pass and Replayed last; between them the caller may stop for good. Only
    passes over a reply compute logits, of one pass at a time.
    Raises VeloxQuantError when the model answers with NaN.
    """
    caches = KVCacheBuilder.for_model(model, KVCacheConfig("plain"))
    found: list[list[TokenFidelity]] = [[] for _ in replies]
    bounds = _bounds(len(tokens), replies, block)
    queries: dict[int, Query] = {}
    seen: dict[int, mx.array] = {}
    for begin, end in pairwise(bounds):
        piece = mx.array(list(tokens[begin:end]))[None]
        reply = next((n for n, r in enumerate(replies) if _first(r) <= begin < _first(r) + r.compared), None)
        with seeing(model, caches, begin, seen):
            if end == len(tokens):
                with recording(model, caches) as queries:
                    logits = model(piece, cache=caches)
                mx.eval(arrays_of(queries))
            else:
                logits = model(piece, cache=caches)
        if reply is None:
            del logits
            mx.eval([cache.state for cache in caches])
        else:
            said = replies[reply]
            at = begin - _first(said)
            # Nothing was chosen from the last token of all, which is in the last pass nevertheless.
            last = min(at + end - begin, said.compared)
            kept = said.rows.read(at, last)
            found[reply] += _compared(logits[0, : last - at], kept, said.tokens[at:last])
            del logits, kept
        mx.clear_cache()
        yield ReplayStep(end, len(tokens))
    compared = tuple(
        ReplyFidelity(reply.start, len(reply.tokens), tuple(ones))
        for reply, ones in zip(replies, found, strict=True)
    )
    yield Replayed(compared, tuple(bounds), exact_rows(caches), queries, seen)


def _first(reply: Spoken) -> int:
    """The position whose logits its first token was chosen from."""
    return reply.start - 1


def _bounds(count: int, replies: Sequence[Spoken], block: int) -> list[int]:
    """Where passes begin and end: at replies too, so that no other rows get logits."""
    cuts = {0, count, max(0, count - QUERIES)}
    for reply in replies:
        end = _first(reply) + reply.compared
        cuts |= {_first(reply), count if end == count - 1 else end}
    marks = sorted(cuts)
    return [at for a, b in pairwise(marks) for at in range(a, b, block)] + [count]


def _compared(logits: mx.array, kept: mx.array, chosen: Sequence[int]) -> list[TokenFidelity]:
    """Compare logits [S, V] of the uncompressed cache with the log-probabilities [S, V] of the other."""
    scores = score(logits, kept, chosen)
    if np.isnan(scores.kl).any():
        raise VeloxQuantError("The replies can't be compared: the model answers with NaN.")
    picked = mx.array(list(chosen))[:, None]
    wide, own = logits.astype(mx.float32), kept.astype(mx.float32)
    total = mx.logsumexp(wide, axis=-1)
    top = wide.argmax(axis=-1)
    mine = mx.take_along_axis(wide, picked, axis=-1)
    best = mx.take_along_axis(wide, top[:, None], axis=-1)
    columns = (
        (wide > mine).sum(axis=-1) + 1,
        (own > mx.take_along_axis(own, picked, axis=-1)).sum(axis=-1) + 1,
        mx.exp(mine[:, 0] - total),
        top,
        mx.exp(best[:, 0] - total),
    )
    mx.eval(columns)
    ranks, own_ranks, likelihoods, tops, highest = (np.array(column).tolist() for column in columns)
    own_likelihoods = np.exp(-scores.nll.astype(np.float64)).tolist()
    return [
        TokenFidelity(*values)
        for values in zip(
            chosen, scores.kl.tolist(), ranks, own_ranks, likelihoods, own_likelihoods,
            scores.same_top1.tolist(), tops, highest, strict=True,
        )
    ]  # fmt: skip
