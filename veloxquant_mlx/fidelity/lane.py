"""One cache among several that read the same text side by side: its clock, its memory, its scores."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from ..builder import KVCacheBuilder
from ..cache.slot import snapshot
from ..compared import SlotFidelity
from ..config import KVCacheConfig
from ..spelling import spell_method
from .records import MethodFidelity, Phase, Spread
from .score import Scores


@dataclass(frozen=True, slots=True)
class Reading:
    """One forward pass (measured)."""

    tokens: int
    seconds: float
    peak: int
    """Memory added at its highest plus what the cache held before, bytes."""
    growth: int
    """Memory that stayed, bytes."""


class Lane:
    """A cache list and what is known about it so far.

    A pass counts only once ``commit`` is called, so that a run that is stopped between two caches ends
    with figures over the same tokens for all.
    """

    def __init__(self, model: Any, config: KVCacheConfig) -> None:
        self.config = config
        self.name = spell_method(config)
        plan = KVCacheBuilder.plan(model, config)
        self.plan = plan.sentence
        self.caches = KVCacheBuilder.for_model(model, config)
        # Figures of an uncompressed cache under a method's name would say that the method is lossless.
        self.problem = plan.sentence if plan.idle else None
        self.blocks: list[Reading] = []
        self.steps: list[Reading] = []
        self.scores: list[Scores] = []
        self.slots: tuple[SlotFidelity, ...] = ()
        self.tokens = 0
        self.growth = 0
        self.held = snapshot(self.caches)
        self._growing = 0
        self._pending: Reading | None = None
        self._pending_scores: Scores | None = None

    def forward(self, model: Any, tokens: mx.array, *, logits: bool, single: bool) -> mx.array | None:
        """Feed tokens [1, S] and measure it; returns logits [S, V] where they are asked for.

        A block is timed as mlx_lm's prefill runs it, until every slot's state is there: logits that are
        needed for the scores come after the clock and the memory are read. A single token is timed with
        its logits, as in decoding.
        """
        mx.synchronize()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        started = time.perf_counter()
        out = model(tokens, cache=self.caches)
        if not logits:
            # Kept, the unevaluated logits would hold on to their inputs.
            out = None
        timed = [cache.state for cache in self.caches]
        mx.eval([timed, out] if single and out is not None else timed)
        mx.synchronize()
        seconds = time.perf_counter() - started
        del timed
        peak = max(0, mx.get_peak_memory() - before)
        if out is not None:
            mx.eval(out)
            mx.synchronize()
        growth = mx.get_active_memory() - before - (0 if out is None else out.nbytes)
        self._pending = Reading(tokens.shape[1], seconds, peak + self._growing, growth)
        if not single:
            mx.clear_cache()
        return None if out is None else out[0]

    def take(self, scores: Scores) -> None:
        """Note the scores of the pending pass."""
        self._pending_scores = scores

    def commit(self, *, single: bool, text: bool = True) -> None:
        """Count the pending pass; one beyond the text changes speeds and peaks only."""
        if self._pending is None:
            return
        (self.steps if single else self.blocks).append(self._pending)
        self._growing += self._pending.growth
        if text:
            self.tokens += self._pending.tokens
            self.growth = self._growing
            self.held = snapshot(self.caches)
            if self._pending_scores is not None:
                self.scores.append(self._pending_scores)
        self._pending = self._pending_scores = None

    def discard(self) -> None:
        """Forget the pending pass's time and scores, not what it added to the cache."""
        if self._pending is not None:
            self._growing += self._pending.growth
        self._pending = self._pending_scores = None

    def fail(self, problem: str) -> None:
        """Leave the run with one sentence and give the memory back."""
        self.problem = problem
        self._pending = self._pending_scores = None
        self.caches = []

    def record(self, reference: "Lane") -> MethodFidelity:
        """Everything committed so far."""
        scores = Scores.joined(self.scores)
        surprise = scores.nll[~np.isnan(scores.nll)].astype(np.float64)
        with np.errstate(over="ignore"):
            perplexity = float(np.exp(surprise.mean())) if surprise.size else None
        count = scores.kl.size
        return MethodFidelity(
            name=self.name,
            config=self.config.as_dict(),
            plan=self.plan,
            problem=self.problem,
            tokens=self.tokens,
            positions=count,
            kl=Spread.of(scores.kl) if count else None,
            same_top1=float(scores.same_top1.mean()) if count else None,
            perplexity=perplexity,
            counted=self.held.counted,
            resident_bytes=self.held.resident_bytes,
            reference_bytes=self.held.reference_bytes,
            memory_growth=self.growth,
            prefill=_phase(self.blocks, reference.blocks),
            decode=_phase(self.steps, reference.steps),
            slots=self.slots,
            scores=scores,
        )


def _phase(own: Sequence[Reading], reference: Sequence[Reading]) -> Phase | None:
    if not own:
        return None
    # A method that left early is compared over the passes it took part in.
    return Phase(
        tokens=sum(reading.tokens for reading in own),
        seconds=sum(reading.seconds for reading in own),
        reference_seconds=sum(reading.seconds for reading in reference[: len(own)]),
        peak_memory=max(reading.peak for reading in own),
    )
