"""Reading a prompt and writing a reply through a given cache list, as a stream of small steps."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from .cache.slot import snapshot
from .errors import VeloxQuantError
from .pieces import Pieces
from .sampling import Sampling
from .steps import PREFILL_BLOCK, FinishedStep, PrefillStep, Step, TokenStep
from .telemetry import CacheSnapshot

Stop = Callable[[], bool]
Keep = Callable[[mx.array], None]

GREEDY = Sampling()
REPETITION_TOKENS = 64
"""How far back a repetition is one, tokens of the reply."""


def never() -> bool:
    """The stop condition of a caller who has none."""
    return False


def generate(
    model: Any,
    tokenizer: Any,
    cache: list[Any],
    tokens: Sequence[int],
    *,
    max_tokens: int | None = None,
    sampling: Sampling = GREEDY,
    written: Sequence[int] = (),
    held: int | None = None,
    context: int | None = None,
    prefill_block: int = PREFILL_BLOCK,
    pauses: Collection[int] = (),
    stop: Stop = never,
    keep: Keep | None = None,
) -> Iterator[Step]:
    """Feed ``tokens`` to the model and yield what happens, one step at a time.

    Args:
        cache: the list that ``KVCacheBuilder.for_model`` made; may hold earlier tokens already.
        tokens: at least one; the part of the prompt that the cache does not hold yet.
        max_tokens: most tokens to write; None leaves it to ``sampling``.
        sampling: how tokens are chosen.
        written: the last tokens of a reply that goes on, so that its text does too: a space between two
            words is part of the second. They are in the cache or in ``tokens`` all the same.
        held: tokens the cache holds already; None asks the cache, which a recurrent state cannot answer.
        context: the model's limit of cached tokens; writing ends there. None is unlimited.
        prefill_block: prompt tokens per forward pass; ``stop`` is looked at between passes.
        pauses: counts of ``tokens`` after which a block ends, for whoever wants to mark the cache there.
        stop: looked at between blocks and tokens.
        keep: called with every written token's log-probabilities [V], float16, before penalties: the
            distribution it was really chosen from.

    Yields PrefillStep after each block, TokenStep per token, and FinishedStep last, also when stopped.
    Afterwards the cache holds ``tokens`` and every yielded token (FinishedStep.tokens).
    Raises VeloxQuantError when the model answers with NaN.
    """
    mx.reset_peak_memory()
    held = snapshot(cache).tokens if held is None else held
    run = _Run(tokenizer, cache, held, len(tokens), written)
    pieces = Pieces(tokenizer)
    # The last token is left to the step that writes the first.
    for step in prefill(
        model, pieces, cache, tokens[:-1],
        held=held, total=len(tokens), block=prefill_block, pauses=pauses, stop=stop,
    ):  # fmt: skip
        run.read = step.done
        yield step
    if stop():
        yield run.finished("stopped")
        return

    wanted = sampling.max_tokens if max_tokens is None else max_tokens
    room = wanted if context is None else min(wanted, context - held - len(tokens))
    if room < 1:
        raise VeloxQuantError(
            "The conversation fills the model's context; start a new chat or shorten the prompt."
        )
    run.turn_to_writing()
    sampler = _Sampler(sampling)
    recorder = None if keep is None else _Recorder(keep)
    entered = list(tokens[run.read :])
    steps = generate_step(
        mx.array(entered),
        model,
        prompt_cache=cache,
        max_tokens=room,
        sampler=sampler,
        logits_processors=[*([] if recorder is None else [recorder]), *_penalties(sampling)],
    )
    ended = None
    # Closed on this thread whatever happens: the library's generator holds one of its streams.
    with contextlib.closing(steps):
        for token, _ in steps:
            if sampler.found_nan():
                raise VeloxQuantError(
                    "The model answered with NaN: its weights are damaged or overflow; try another copy."
                )
            if recorder is not None:
                recorder.take()
            text = run.take(token)
            ended = "stop" if token in tokenizer.eos_token_ids else "stopped" if stop() else None
            entered.append(token)
            yield TokenStep(text, token, len(run.written), run.snapshot(), pieces.of(entered))
            entered.clear()
            if ended:
                break
    yield run.finished(ended or ("length" if room == wanted else "context"))


def prefill(
    model: Any,
    pieces: Pieces,
    cache: list[Any],
    tokens: Sequence[int],
    *,
    held: int = 0,
    total: int | None = None,
    block: int = PREFILL_BLOCK,
    pauses: Collection[int] = (),
    stop: Stop = never,
) -> Iterator[PrefillStep]:
    """Read ``tokens`` into a cache that holds ``held`` already, and write nothing.

    A block is of ``block`` tokens, fewer where one of the ``pauses`` is reached.

    Yields a PrefillStep after each block, of ``total`` tokens where more follow. Ends early, without a
    word, once ``stop`` says so: it is looked at before each block.
    """
    done = 0
    while done < len(tokens) and not stop():
        end = min((pause for pause in pauses if pause > done), default=len(tokens))
        rows = list(tokens[done : min(done + block, end)])
        model(mx.array(rows)[None], cache=cache)
        mx.eval([slot.state for slot in cache])
        mx.clear_cache()
        done += len(rows)
        yield PrefillStep(done, total or len(tokens), snapshot(cache, held + done), pieces.of(rows))


class _Run:
    """Clock and text of one reply."""

    def __init__(
        self, tokenizer: Any, cache: list[Any], held: int, total: int, before: Sequence[int]
    ) -> None:
        self.cache = cache
        self.held = held
        self.total = total
        self.read = 0
        self.written: list[int] = []
        self.detokenizer = tokenizer.detokenizer
        self.eos = tokenizer.eos_token_ids
        for token in before:
            self.detokenizer.add_token(token)
        self._before = len(self.detokenizer.text) if before else 0
        self._told = self._before
        self.started = time.perf_counter()
        self.first: float | None = None
        self.last = self.started
        self._read_peak: int | None = None

    def take(self, token: int) -> str:
        """Note a token and return the text that became whole with it."""
        self.last = time.perf_counter()
        if self.first is None:
            self.first = self.last
            self.read = self.total
        self.written.append(token)
        if token in self.eos:
            self.detokenizer.finalize()
        else:
            self.detokenizer.add_token(token)
        # The detokenizer's own count of what was handed out knows nothing of a reply that goes on.
        text = str(self.detokenizer.text)
        new, self._told = text[self._told :], max(self._told, len(text))
        return new

    def turn_to_writing(self) -> None:
        """The prompt but its last token is read: from now on the peak is that of writing."""
        self._read_peak = mx.get_peak_memory()
        mx.reset_peak_memory()

    def snapshot(self) -> CacheSnapshot:
        """The cache now; it has read what was fed and every token written."""
        made = snapshot(self.cache, self.held + self.read + len(self.written))
        return replace(made, peak_memory=max(made.peak_memory, self._read_peak or 0))

    def finished(self, reason: str) -> FinishedStep:
        """The closing step. Text that an incomplete character held back is in it."""
        self.detokenizer.finalize()
        first = self.first if self.first is not None else time.perf_counter()
        return FinishedStep(
            reason=reason,
            text=str(self.detokenizer.text)[self._before :],
            prompt_tokens=self.read,
            reply_tokens=len(self.written),
            prefill_seconds=first - self.started,
            decode_seconds=self.last - first if self.first is not None else 0.0,
            snapshot=self.snapshot(),
            tokens=tuple(self.written),
            prefill_peak=mx.get_peak_memory() if self._read_peak is None else self._read_peak,
            decode_peak=None if self._read_peak is None else mx.get_peak_memory(),
        )


class _Sampler:
    """mlx_lm's sampler that also looks for NaN.

    What it found is evaluated right away beside the token, so that reading it costs no extra wait. The
    token itself stays a valid one: the next step may be on its way with it already.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._choose: Callable[[mx.array], mx.array] | None = None
        self._broken: deque[mx.array] = deque()
        if sampling.seed is not None:
            mx.random.seed(sampling.seed)

    def __call__(self, logprobs: mx.array) -> mx.array:
        broken = mx.isnan(logprobs).any()
        mx.async_eval(broken)
        self._broken.append(broken)
        if self._choose is None:
            wanted, tokens = self._sampling, logprobs.shape[-1]
            self._choose = make_sampler(
                temp=wanted.temperature,
                top_p=wanted.top_p,
                min_p=wanted.min_p,
                # The library refuses as many as there are.
                top_k=wanted.top_k if wanted.top_k < tokens else 0,
            )
        return self._choose(logprobs)

    def found_nan(self) -> bool:
        """Whether the oldest step not asked about yet gave NaN."""
        return bool(self._broken.popleft().item())


class _Recorder:
    """A processor that leaves the logits as they are and keeps the distribution they stand for.

    Like the sampler's check, the row is evaluated beside its token: asked for later, it would wait for the
    step that is on its way by then. The row of a step whose token is never taken is dropped.
    """

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._rows: deque[mx.array] = deque()

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        wide = logits[0].astype(mx.float32)
        # Log-probabilities lose less in 16 bits than logits: what is likely lies close to 0.
        row = (wide - mx.logsumexp(wide)).astype(mx.float16)
        mx.async_eval(row)
        self._rows.append(row)
        return logits

    def take(self) -> None:
        """Hand on the row of the oldest token not taken yet."""
        self._keep(self._rows.popleft())


def _penalties(sampling: Sampling) -> list[Any]:
    if sampling.repetition_penalty == 1.0:
        return []
    return list(
        make_logits_processors(
            repetition_penalty=sampling.repetition_penalty, repetition_context_size=REPETITION_TOKENS
        )
    )
