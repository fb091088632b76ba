"""What another setting would do to this conversation, and a search for the smallest that is good enough.

A setting's effect is first seen in how far each slot's attention output moves: the exact rows of the
conversation are encoded anew and the newest queries asked again, without the model. KL grows about with the
square of that error, so it tells which settings are worth a run of the model; what the search ends with was
measured by one.
"""

import dataclasses
import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.core.comparing import Listener, refuse_too_large
from studio.core.predict import predict_bytes, reference_bytes
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.compared import front
from veloxquant_mlx.config import KVCacheConfig, SlotShape
from veloxquant_mlx.errors import QuantizerConfigError, VeloxQuantError
from veloxquant_mlx.fidelity import Captured, Replayed, ReplayStep, measure_steps, replay
from veloxquant_mlx.fidelity.captured import refuse_too_many, spread
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.shapes import kv_shapes

SAMPLE = 6
"""Slots that a candidate of the search is tried on."""
LEAST = 256
"""Tokens a conversation must have for a search: below, most settings still hold everything exactly."""
MOST = 2048
"""Tokens of the conversation that the model is run over to measure a candidate."""
WIDTHS = (2, 3, 4, 6)
"""Bits that the search goes through, for every parameter that is a width."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A setting on the conversation's exact rows, as far as it was tried."""

    config: KVCacheConfig
    tokens: int
    errors: tuple[tuple[int, float], ...]
    """Slot and its attention-output error, a share; in the order they were tried."""
    measured: int
    """How many of them, from the first on, were measured; the rest is estimated from one head each."""
    slots: int
    """Slots that can be tried at all; as many are measured at the end."""

    @property
    def error(self) -> float | None:
        """Mean over the slots tried so far."""
        return float(np.mean([error for _, error in self.errors])) if self.errors else None


@dataclass(frozen=True, slots=True)
class Point:
    """One candidate of a search."""

    config: KVCacheConfig
    bytes: int
    """Of the whole cache at the conversation's tokens (predicted)."""
    error: float
    """Mean attention-output error over the sampled slots, a share (measured)."""
    kl: float | None = None
    """Nats per token; None while nothing was measured to predict it by."""
    measured: bool = False
    """Whether the model was run for ``kl``, which is predicted from ``error`` otherwise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How far a search is."""

    done: int
    total: int
    words: str
    limit: float
    """KL that is asked for, nats per token."""
    tokens: int
    reference: int
    """Bytes of the conversation at 16 bits (counted)."""
    points: tuple[Point, ...]
    best: Point | None = None
    """The smallest setting measured to stay under the limit."""
    complete: bool = False


def try_setting(
    loaded: LoadedModel, listener: Listener, held: Sequence[int], config: KVCacheConfig
) -> Generator[ReplayStep | Tried]:
    """Try a setting on the conversation, slot by slot, the most telling first: all estimated, then measured.

    Rows that nobody captured yet are captured first, which runs the model once (ReplayStep).
    Raises VeloxQuantError where there is nothing that could be told.
    """
    yield from _capture(loaded, listener, held)
    captured = listener.captured
    if captured is None:
        return
    plan = KVCacheBuilder.plan(loaded.model, config)
    errors: dict[int, float] = {}
    # A slot of one head is as soon measured as estimated.
    estimates = captured.estimates(loaded.model, config) if captured.several_heads else ()
    for found, are_measured in ((estimates, False), (captured.tries(loaded.model, config), True)):
        measured = 0
        for one in found:
            if one.attention_error is not None:
                errors[one.slot] = one.attention_error
                measured += are_measured
                yield Tried(config, captured.tokens, tuple(errors.items()), measured, plan.replaced)
    if not errors:
        raise VeloxQuantError(
            "What a setting does to the answers can't be told here: none of this model's slots is compressed "
            "by it, or their attention can't be listened to."
        )


def find_smallest(
    loaded: LoadedModel,
    listener: Listener,
    held: Sequence[int],
    limit: float,
    catalogue: Mapping[str, type[KVCacheConfig]],
    own: Sequence[KVCacheConfig] = (),
) -> Generator[ReplayStep | Finding]:
    """Look for the setting of the fewest bytes whose KL on this conversation stays under ``limit``.

    Every candidate is tried on SAMPLE slots. Of those that no other beats in both bytes and error, a
    bisection over the bytes measures the KL with the model, beside the uncompressed cache, in blocks of 128.

    Args:
        limit: nats per token. catalogue: methods by name. own: settings that take part besides the presets.

    Raises VeloxQuantError for a conversation that is too short.
    """
    if len(held) < LEAST:
        raise VeloxQuantError(
            f"The conversation has {len(held):,} tokens, and a search needs {LEAST:,}: with fewer, most "
            "settings still hold everything exactly."
        )
    yield from _capture(loaded, listener, held)
    captured = listener.captured
    if captured is None:
        return
    shapes = kv_shapes(loaded.model)
    search = _Search(loaded, captured, list(held[: min(MOST, captured.tokens)]), shapes, limit)
    wanted = [config for config in candidates(catalogue, own) if not search.idle(config)]
    # Once one of them is measured, the others' KL can be predicted while they are tried.
    yield from search.try_all(wanted[:1], len(wanted))
    yield from search.measure_one(wanted[:1])
    yield from search.try_all(wanted[1:], len(wanted))
    yield from search.bisect()


def candidates(
    catalogue: Mapping[str, type[KVCacheConfig]], own: Sequence[KVCacheConfig] = ()
) -> list[KVCacheConfig]:
    """Every preset of every method that compresses, and of each the first one with all WIDTHS of bits."""
    found = dict.fromkeys(own)
    for method in catalogue.values():
        if method.compresses:
            bases = [method.preset(name) for name in method.presets] or [method()]
            found |= dict.fromkeys(bases)
            found |= dict.fromkeys(_varied(bases[0]))
    return [config for config in found if config.compresses]


def _varied(base: KVCacheConfig) -> Iterator[KVCacheConfig]:
    fields = [
        spec.name
        for spec in base.fields()
        if (spec.param.unit == "bits" and spec.type in (int, float) and not spec.param.choices)
        or (spec.param.unit == "bits" and set(WIDTHS) <= set(spec.param.choices))
    ]  # fmt: skip
    for bits in itertools.product(WIDTHS, repeat=len(fields)):
        told: dict[str, Any] = dict(zip(fields, bits, strict=True))
        try:
            yield dataclasses.replace(base, **told)
        except QuantizerConfigError:
            continue


class _Search:
    def __init__(
        self,
        loaded: LoadedModel,
        captured: Captured,
        tokens: list[int],
        shapes: list[SlotShape],
        limit: float,
    ) -> None:
        self._model, self._captured, self._tokens = loaded.model, captured, tokens
        self._shapes, self._limit = shapes, limit
        self._slots = spread(len(captured))[:SAMPLE]
        self._points: list[Point] = []
        self._tried = self._done = 0
        self._total = 1

    def idle(self, config: KVCacheConfig) -> bool:
        """Whether a setting finds nothing to compress in this model."""
        return KVCacheBuilder.plan(self._model, config).idle

    def try_all(self, wanted: Sequence[KVCacheConfig], count: int) -> Iterator[Finding]:
        """Error and bytes of each, of ``count`` in all."""
        self._total = count + 5
        for config in wanted:
            errors = [one.attention_error for one in self._captured.tries(self._model, config, self._slots)]
            known = [error for error in errors if error is not None]
            size = predict_bytes(config, self._shapes, self._captured.tokens).total
            if known and size:
                self._points.append(Point(config, size, float(np.mean(known))))
                self._predict()
            self._done += 1
            self._tried += 1
            yield self._finding(f"{self._tried} of {count} settings tried on {len(self._slots)} slots")

    def measure_one(self, configs: Sequence[KVCacheConfig]) -> Iterator[Finding]:
        """The KL of the first, where it could be tried."""
        for point in self._points[: len(configs)]:
            yield from self._measure(point)
            self._done += 1

    def bisect(self) -> Iterator[Finding]:
        """Bisection: along the front fewer bytes mean more error, and so more KL."""
        line = front(self._points, lambda point: (point.bytes, point.error))
        low, high = 0, len(line)
        self._total = self._done + max(1, len(line).bit_length())
        while low < high:
            middle = (low + high) // 2
            if not line[middle].measured:
                yield from self._measure(line[middle])
            point = next(p for p in self._points if p.config == line[middle].config)
            # Not measured even so: the setting can't run on this model, as good as far off.
            near = point.measured and point.kl is not None and point.kl <= self._limit
            low, high = (low, middle) if near else (middle + 1, high)
            self._done += 1
        yield self._finding(self._verdict(), complete=True)

    def _measure(self, point: Point) -> Iterator[Finding]:
        start = min(256, len(self._tokens) // 4)
        for found in measure_steps(self._model, self._tokens, [point.config], start=start):
            words = f"Measuring KL, {found.tokens_done:,} of {found.tokens:,} tokens read"
            yield self._finding(words)
            if found.complete and found.methods[0].kl is not None:
                self._note(point, found.methods[0].kl.mean)

    def _note(self, point: Point, kl: float) -> None:
        self._points = [
            dataclasses.replace(p, kl=kl, measured=True) if p.config == point.config else p
            for p in self._points
        ]
        self._predict()

    def _predict(self) -> None:
        """What was not measured follows the square of its error, by what was."""
        known = [p for p in self._points if p.measured and p.kl and p.error]
        if known:
            factor = float(np.exp(np.mean([np.log((p.kl or 1.0) / p.error**2) for p in known])))
            self._points = [
                p if p.measured else dataclasses.replace(p, kl=factor * p.error**2) for p in self._points
            ]

    def _best(self) -> Point | None:
        fitting = [p for p in self._points if p.measured and p.kl is not None and p.kl <= self._limit]
        return min(fitting, key=lambda p: (p.bytes, p.kl or 0.0), default=None)

    def _verdict(self) -> str:
        if self._best() is None:
            return f"No setting was measured below {self._limit:g} nats per token on this conversation"
        return f"The smallest setting measured below {self._limit:g} nats per token"

    def _finding(self, words: str, *, complete: bool = False) -> Finding:
        tokens = self._captured.tokens
        return Finding(
            self._total if complete else min(self._done, self._total - 1), self._total, words, self._limit,
            tokens, reference_bytes(self._shapes, tokens), tuple(self._points), self._best(), complete,
        )  # fmt: skip


def _capture(loaded: LoadedModel, listener: Listener, held: Sequence[int]) -> Iterator[ReplayStep]:
    if listener.captured is not None or len(held) < 2:
        return
    shapes = kv_shapes(loaded.model)
    refuse_too_many(reference_bytes(shapes, len(held)))
    refuse_too_large(loaded, len(held))
    for step in replay(loaded.model, held, []):
        if isinstance(step, Replayed):
            listener.capture(Captured(step.rows, step.queries, len(held), seen=step.seen))
        else:
            yield step
