"""The protocol: one text, read side by side by the uncompressed cache and by those under test."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from .. import attention
from ..config import KVCacheConfig
from ..errors import Cancelled, VeloxQuantError
from ..progress import Progress, part, silent
from .capture import Query, capture_queries, seeing
from .lane import Lane
from .records import Measurement
from .score import score
from .slots import slot_fidelities

_WARM_UP = 16
"""Tokens read before the clock counts: the first pass pays for page faults and kernels."""


def measure(
    model: Any,
    tokens: Sequence[int],
    configs: Sequence[KVCacheConfig],
    *,
    block: int = 128,
    start: int = 256,
    decode: bool = False,
    decode_steps: int = 32,
    slots: bool = False,
    on_codes: bool = True,
    progress: Progress | None = None,
) -> Measurement:
    """Compare caches with mlx_lm's uncompressed one on a given text, teacher-forced.

    All caches read block after block in turn, so that speeds are taken under the same conditions and no
    more than one block's logits of two caches exist at a time.

    Args:
        model: an mlx_lm model. tokens: of the text, batch 1.
        configs: the caches under test; the reference runs by itself.
        block: tokens fed at once.
        start: positions from here on are scored.
        decode: feed scored tokens one at a time, and take decode speed and peak from them.
        decode_steps: otherwise, single tokens after the text for decode speed and peak: the reference's
            own greedy continuation, the same for all, after one more that warms up. 0 leaves them out.
        slots: also compare slot by slot; costs one more pass over the last block and a replay of the text.
        on_codes: let the model attend on codes where it can, as replies do; otherwise every pass decodes
            the rows it needs.
        progress: when it raises Cancelled, or on Ctrl-C, the measurement made so far is returned with
            ``complete`` False; with no position scored yet the exception goes through.

    A method that cannot go on (its cache refuses the rows, or the model answers with NaN through it)
    leaves the run with a sentence in ``problem``; the others go on. The model is as it was afterwards.
    Raises VeloxQuantError when there is nothing to score or when the uncompressed run ends in NaN.
    """
    if block < 1 or start < 0 or decode_steps < 0:
        raise VeloxQuantError("block must be at least 1, start and decode_steps at least 0.")
    if len(tokens) <= start:
        raise VeloxQuantError(
            f"Scores begin at token {start:,}, but only {len(tokens):,} are fed: feed more or start earlier."
        )
    with _attention(model, on_codes) as words:
        run = _Run(model, tokens, configs, block, start, decode, words, progress or silent)
        complete = False
        try:
            run.warm_up()
            run.read_text(part(run.report, 0.0, 0.9), slots)
            if slots:
                run.compare_slots(part(run.report, 0.9, 0.95))
            if not decode and decode_steps:
                run.decode_on(decode_steps, part(run.report, 0.95, 1.0))
            run.report(1.0, "Measured")
            complete = True
        except (KeyboardInterrupt, Cancelled):
            if not run.reference.scores:
                raise
        return run.result(complete)


def measure_steps(
    model: Any, tokens: Sequence[int], configs: Sequence[KVCacheConfig], *, block: int = 128, start: int = 256
) -> Iterator[Measurement]:
    """``measure`` without speeds, block by block, for whoever has something else to do in between.

    Yields the measurement so far after every block; the last is complete.
    """
    with _attention(model, True) as words:
        run = _Run(model, tokens, configs, block, start, False, words, silent)
        for begin, end in pairwise(run.bounds()):
            run._pass(begin, end, silent)
            yield run.result(end == len(tokens))


@contextmanager
def _attention(model: Any, on_codes: bool) -> Iterator[str]:
    """Attention as asked for, and in words; afterwards as it was."""
    before = attention.is_enabled(model)
    reason: str | None = "every pass decodes the rows it needs"
    if on_codes:
        reason = attention.enable(model)
        reason = f"every pass decodes the rows it needs: {reason}" if reason else None
    else:
        attention.disable(model)
    try:
        yield reason or "decode steps attend on codes where the cache offers it"
    finally:
        if before:
            attention.enable(model)
        else:
            attention.disable(model)


class _Run:
    """The lanes and how far they are."""

    def __init__(
        self,
        model: Any,
        tokens: Sequence[int],
        configs: Sequence[KVCacheConfig],
        block: int,
        start: int,
        one_by_one: bool,
        attention_words: str,
        report: Progress,
    ) -> None:
        self.model = model
        self.tokens = list(tokens)
        self.block = block
        self.start = start
        self.one_by_one = one_by_one
        self.attention_words = attention_words
        self.report = report
        self.reference = Lane(model, KVCacheConfig("plain"))
        self.lanes = [Lane(model, config) for config in configs]
        self.next_token = 0
        self.capture = False
        self.queries: dict[int, Query] = {}
        self.seen: dict[int, mx.array] = {}

    def warm_up(self) -> None:
        """Read a few tokens into a cache that is thrown away."""
        caches = make_prompt_cache(self.model)
        self.model(mx.array(self.tokens[:_WARM_UP])[None], cache=caches)
        mx.eval([cache.state for cache in caches])
        del caches
        mx.clear_cache()

    def bounds(self) -> list[int]:
        """Where passes begin and end, 0 first and the text's end last."""
        end = len(self.tokens)
        if self.one_by_one:
            return [*range(0, self.start, self.block), *range(self.start, end + 1)]
        return [*range(0, end, self.block), end]

    def last_block(self) -> int:
        """Where the block begins whose queries are captured."""
        end = len(self.tokens)
        if self.one_by_one:
            return max(self.start, end - self.block)
        return (end - 1) // self.block * self.block

    def read_text(self, report: Progress, capture: bool) -> None:
        """Feed the text to every lane, pass by pass, and score it."""
        bounds = self.bounds()
        self.capture = capture
        for done, (begin, end) in enumerate(pairwise(bounds)):
            if capture and begin == self.last_block():
                piece = mx.array(self.tokens[begin : begin + self.block])[None]
                self.queries = dict(capture_queries(self.model, self.reference.caches, piece))
                mx.clear_cache()
            self._pass(begin, end, part(report, done / (len(bounds) - 1), (done + 1) / (len(bounds) - 1)))

    def _pass(self, begin: int, end: int, report: Progress) -> None:
        scored = end > self.start
        skipped = max(0, self.start - begin)
        single = self.one_by_one and begin >= self.start
        piece = mx.array(self.tokens[begin:end])[None]
        following = [
            *self.tokens[begin + skipped + 1 : end + 1],
            *([None] if end == len(self.tokens) else []),
        ]
        words = f"{begin:,} of {len(self.tokens):,} tokens read"
        expected: mx.array | None = None
        for index, lane in enumerate(self._running()):
            report(index / (len(self.lanes) + 1), words)
            early = self.capture and lane is self.reference
            with seeing(self.model, lane.caches, begin, self.seen) if early else nullcontext():
                logits = self._forward(lane, piece, logits=scored, single=single)
            if logits is None:
                continue
            if expected is None:
                expected = logits[skipped:]
                self.next_token = _likeliest(logits)
            found = score(expected, logits[skipped:], following)
            del logits
            at = np.flatnonzero(np.isnan(found.kl))
            if not at.size:
                lane.take(found)
            elif lane is self.reference:
                raise VeloxQuantError(
                    f"The model answers with NaN at token {begin + skipped + int(at[0]):,} without any "
                    "compression: its weights are damaged or overflow; try another copy."
                )
            else:
                lane.fail(f"The model answers with NaN at token {begin + skipped + int(at[0]):,}.")
        del expected
        for lane in self._running():
            lane.commit(single=single)

    def _running(self) -> list[Lane]:
        return [self.reference, *(lane for lane in self.lanes if lane.problem is None)]

    def _forward(self, lane: Lane, tokens: mx.array, *, logits: bool, single: bool) -> mx.array | None:
        try:
            return lane.forward(self.model, tokens, logits=logits, single=single)
        except (ValueError, RuntimeError, NotImplementedError, TypeError) as error:
            if lane is self.reference:
                raise
            # Whatever a cache or mlx refuses, the other methods are still worth their figures.
            lane.fail(_sentence(error))
            mx.clear_cache()
            return None

    def compare_slots(self, report: Progress) -> None:
        """Replay every slot of every method."""
        bounds = [*range(0, self.last_block(), self.block), self.last_block(), len(self.tokens)]
        running = [lane for lane in self._running() if lane is not self.reference]
        for index, lane in enumerate(running):
            stage = part(report, index / len(running), (index + 1) / len(running))
            lane.slots = slot_fidelities(
                self.model, lane.config, self.reference.caches, self.queries, sorted(set(bounds)), stage,
                self.seen,
            )  # fmt: skip
        self.queries, self.seen = {}, {}

    def decode_on(self, steps: int, report: Progress) -> None:
        """Feed every lane the reference's greedy continuation, token by token."""
        token = self.next_token
        for done in range(steps + 1):
            report(done / (steps + 1), f"Decode step {done} of {steps}")
            piece = mx.array([[token]])
            for lane in self._running():
                logits = self._forward(lane, piece, logits=True, single=True)
                if lane is self.reference and logits is not None:
                    token = _likeliest(logits)
            for lane in self._running():
                if done:
                    lane.commit(single=True, text=False)
                else:
                    lane.discard()

    def result(self, complete: bool) -> Measurement:
        """Everything committed so far."""
        return Measurement(
            tokens=len(self.tokens),
            tokens_done=self.reference.tokens,
            block=self.block,
            start=self.start,
            one_by_one=self.one_by_one,
            attention=self.attention_words,
            complete=complete,
            reference=self.reference.record(self.reference),
            methods=tuple(lane.record(self.reference) for lane in self.lanes),
        )


def _likeliest(logits: mx.array) -> int:
    return int(np.array(logits[-1].argmax()))


def _sentence(error: Exception) -> str:
    if isinstance(error, VeloxQuantError):
        return str(error)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"The model can't run on this cache: {lines[0].rstrip('.: ')}."
