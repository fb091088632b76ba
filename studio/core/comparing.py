"""Replies against what the uncompressed cache would have said: what is kept, and the comparison. No Qt."""

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from studio.core.compared import Comparison, ReplyComparison
from studio.core.predict import reference_bytes
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.compared import SlotFidelity
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import (
    Captured,
    KeptRows,
    Replayed,
    ReplayStep,
    Spoken,
    replay,
)
from veloxquant_mlx.fidelity.slots import each_slot
from veloxquant_mlx.generation import Keep
from veloxquant_mlx.models.compute import free_memory
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.pieces import Pieces
from veloxquant_mlx.shapes import kv_shapes
from veloxquant_mlx.steps import TokenStep

_log = logging.getLogger(__name__)

MOST = 8
"""Replies kept at most that were not compared yet, because the next prompt always came first."""
ROOM = 0.7
"""Share of the memory still free that the uncompressed cache may take for a comparison."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """A reply that can be compared."""

    message: int
    offset: int
    """Characters of the message before this reply, which went on with it."""
    ends: tuple[int, ...]
    """Characters of the message up to the end of each token."""
    held: tuple[int, ...] = field(repr=False)
    """All tokens of the conversation up to its end."""
    config: KVCacheConfig
    spoken: Spoken


class Listener:
    """Hears every reply of a session as it is written and keeps what comparing it takes."""

    def __init__(self) -> None:
        self.on = False
        """Whether replies are kept; looked at when one begins."""
        self.message = 0
        """Number of the message that is written next."""
        self.captured: Captured | None = None
        """Exact rows of the conversation as it was compared last, to try other settings on."""
        self._waiting: list[Said] = []
        self._rows: KeptRows | None = None
        self._offset = 0
        self._ends: list[int] = []

    @property
    def waiting(self) -> tuple[Said, ...]:
        """Replies that are not compared yet, oldest first."""
        return tuple(self._waiting)

    def begin(self, offset: int) -> Keep | None:
        """A reply begins at so many characters of its message; where its rows go, if anywhere."""
        self._drop()
        if not self.on:
            return None
        self._rows, self._offset, self._ends = KeptRows(), offset, []
        return self._rows.add

    def take(self, step: TokenStep) -> None:
        """A token was written."""
        if self._rows is not None:
            self._ends.append((self._ends[-1] if self._ends else self._offset) + len(step.text))

    def end(self, held: Sequence[int], config: KVCacheConfig) -> None:
        """The reply ended, and the cache of ``config`` holds these tokens."""
        rows, self._rows = self._rows, None
        if rows is None:
            return
        count = len(self._ends)
        if not rows.count or not config.compresses or count >= len(held):
            rows.close()
            return
        spoken = Spoken(len(held) - count, tuple(held[-count:]), rows)
        self._waiting.append(Said(self.message, self._offset, tuple(self._ends), tuple(held), config, spoken))
        if len(self._waiting) > MOST:
            self.done(self._waiting[:1])

    def done(self, said: Sequence[Said]) -> None:
        """These were compared, or can't be: give back what was kept."""
        for one in said:
            one.spoken.rows.close()
            self._waiting.remove(one)

    def capture(self, captured: Captured | None) -> None:
        """Hold these rows in place of those before."""
        if self.captured is not None:
            self.captured.close()
        self.captured = captured

    def forget(self) -> None:
        """The conversation is gone."""
        self._drop()
        self.capture(None)
        self.done(self.waiting)

    def _drop(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None


def compare(
    loaded: LoadedModel, listener: Listener, held: Sequence[int], config: KVCacheConfig
) -> Generator[ReplayStep | Comparison]:
    """Read the conversation that is ``held`` through an uncompressed cache, and compare what waits for it.

    Yields a ReplayStep after each pass (slots count as passes of no tokens) and the Comparison last; whoever
    stops in between loses nothing: what waits goes on waiting. The live cache is not touched.
    Raises VeloxQuantError where the uncompressed cache would not fit in memory.
    """
    tokens = list(held)
    elsewhere = [one for one in listener.waiting if list(one.held) != tokens[: len(one.held)]]
    listener.done(elsewhere)
    if KVCacheBuilder.plan(loaded.model, config).idle:
        # The model's own cache wrote them: there is nothing that could differ.
        listener.done(listener.waiting)
    if not listener.waiting:
        return
    refuse_too_large(loaded, len(tokens))
    try:
        yield from _compared(loaded, listener, tokens, config)
    finally:
        mx.clear_cache()


def _compared(
    loaded: LoadedModel, listener: Listener, tokens: list[int], config: KVCacheConfig
) -> Generator[ReplayStep | Comparison]:
    said = listener.waiting
    replayed: Replayed | None = None
    for step in replay(loaded.model, tokens, [one.spoken for one in said]):
        if isinstance(step, ReplayStep):
            yield step
        else:
            replayed = step
    if replayed is None:
        return
    found = replayed.replies
    slots: list[SlotFidelity] = []
    rows = replayed.rows.__getitem__
    outputs: dict[int, mx.array] = {}
    for one in each_slot(
        loaded.model, config, rows, replayed.queries, replayed.bounds,
        seen=replayed.seen, sides=False, outputs=outputs,
    ):  # fmt: skip
        slots.append(one)
        yield ReplayStep(len(tokens), len(tokens))
    try:
        listener.capture(
            Captured(
                replayed.rows, replayed.queries, len(tokens),
                seen=replayed.seen, outputs=outputs, tried=slots,
            )
        )  # fmt: skip
    except VeloxQuantError as error:
        # Said when somebody wants to try another setting; the comparison is whole without it.
        _log.info("%s", error)
    del replayed, rows
    pieces = Pieces(loaded.tokenizer)
    replies = tuple(
        ReplyComparison(
            one.message, one.offset, one.ends, one.config,
            pieces.of([token.token for token in reply.tokens]), pieces.of([t.top for t in reply.tokens]),
            reply,
        )
        for one, reply in zip(said, found, strict=True)
    )  # fmt: skip
    listener.done(said)
    yield Comparison(len(tokens), config, replies, tuple(slots))


def refuse_too_large(loaded: LoadedModel, tokens: int) -> None:
    shapes = kv_shapes(loaded.model)
    wanted = reference_bytes(shapes, tokens) * (2 if "float32" in loaded.compute else 1)
    free = free_memory() + mx.get_cache_memory()
    if wanted > ROOM * free:
        raise VeloxQuantError(
            f"Not compared: the uncompressed cache of {tokens:,} tokens would take {wanted / 1e9:.1f} GB, "
            f"and {free / 1e9:.1f} GB are free; close other programs, or compare a shorter conversation."
        )
