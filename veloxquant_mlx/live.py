"""The cache of a conversation: the tokens it holds, and the marks it can go back to."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from .cache.slot import snapshot
from .generation import generate
from .rewind import Mark, cut, lowest_at, mark, rewind
from .steps import FinishedStep, PrefillStep, Reuse, Step

_log = logging.getLogger(__name__)

SHARE = 0.1
"""Most that the marks of a conversation may take, as a share of its cache."""
MOST = 32
"""Most marks of one conversation: some take nothing, but looking through them does."""
OPENING = 8
"""Tokens before the end of a prompt that a mark keeps clear of: templates open a reply with some that they
leave out, or write otherwise, once the reply is a part of the conversation."""
_EDITED, _FADING = 1 / 64, 0.9
"""How likely a person goes back to a turn boundary before the newest one, against regenerating from that, and
how much less likely with every boundary further back."""


class LiveCache:
    """A cache list together with the tokens in it; whoever feeds it says so.

    Marks are made at both ends of a prompt: the turn boundaries that regenerating and editing go back to.
    Their exact rows may take SHARE of the cache; beyond it the marks go whose loss is expected to cost the
    fewest tokens read again, and those left are cut to as few rows as their method allows. One mark always
    stays: in a short conversation it may take more.
    """

    def __init__(self, caches: list[Any], held: Sequence[int] = ()) -> None:
        self.caches = caches
        self.held: list[int] | None = list(held)
        """Tokens in the cache; None while a model call may be under way and nobody knows."""
        self._marks: list[Mark] = []
        self._turns: list[int] = []

    @property
    def marks(self) -> tuple[int, ...]:
        """Token counts at which marks stand, rising."""
        return tuple(made.tokens for made in self._marks)

    @property
    def turns(self) -> tuple[int, ...]:
        """Token counts at which a prompt began or ended, rising, whether a mark stands there or not."""
        return tuple(self._turns)

    @property
    def mark_bytes(self) -> int:
        """Bytes of the exact rows the marks keep (measured)."""
        return sum(made.nbytes for made in self._marks)

    def go_back(self, tokens: Sequence[int]) -> int:
        """Make what is held a beginning of ``tokens`` that leaves one to read at least; its length.

        0 leaves the cache as it was: there is no way back far enough, a fresh one is needed.
        """
        if self.held is None:
            return 0
        most = min(common(self.held, tokens), len(tokens) - 1)
        if most == len(self.held):
            return most
        # Rows after the frontier are exact: a mark may stand anywhere among them.
        usable = [made for made in [*self._marks, mark(self.caches, len(self.held))] if made.lowest <= most]
        best = max(usable, key=lambda made: min(made.tokens, most), default=None)
        place = 0 if best is None else min(best.tokens, most)
        if best is None or not place:
            return 0
        rewind(self.caches, best if best.tokens == place else cut(self.caches, best, place))
        self.held = self.held[:place]
        self._marks = [made for made in self._marks if made.tokens <= place]
        self._turns = [turn for turn in self._turns if turn <= place]
        return place

    def steps(
        self, model: Any, tokenizer: Any, tokens: Sequence[int], reuse: Reuse, **options: Any
    ) -> Iterator[Step]:
        """The steps of ``generate`` for a conversation of ``tokens``, of which ``reuse.kept`` are held.

        A PrefillStep that tells the reuse comes first. Marks are made on the way. What is held is known again
        at the FinishedStep: broken off before, the cache is of no use.
        """
        wanted = self.begin(len(tokens))
        fresh = list(tokens[reuse.kept :])
        yield PrefillStep(0, len(fresh), snapshot(self.caches, reuse.kept), reuse=reuse)
        pauses = [place - reuse.kept for place in wanted]
        for step in generate(model, tokenizer, self.caches, fresh, held=reuse.kept, pauses=pauses, **options):
            if isinstance(step, PrefillStep) and reuse.kept + step.done in wanted:
                self.mark(reuse.kept + step.done)
            elif isinstance(step, FinishedStep):
                step = replace(step, reuse=reuse)
                if not self.settle([*tokens[: reuse.kept + step.prompt_tokens], *step.tokens]):
                    _log.error("The cache holds another number of tokens than it was fed.")
            yield step

    def begin(self, prompt: int, turns: Iterable[int] = ()) -> set[int]:
        """A prompt of so many tokens, those held included, begins: what is held is uncertain from now on.

        Gives the token counts at which ``mark`` is wanted once the prompt is read so far: near its end, and
        near those of ``turns`` it goes over, where a mark takes the fewest exact rows.
        """
        held, self.held = len(self.held or ()), None
        end = prompt - 1
        self._turns = sorted({*self._turns, held, *turns, end})
        if held:
            self.mark(held)
        places = (lowest_at(self.caches, max(0, turn - OPENING)) for turn in self._turns if turn <= end)
        return {place for place in places if place > held}

    def mark(self, tokens: int) -> None:
        """Keep a way back to where the cache stands, at so many tokens."""
        made = mark(self.caches, tokens)
        # What can be cut to nothing and keeps nothing, as of a plain cache, can be had whenever it is wanted.
        if made.lowest or made.nbytes:
            self._marks = [*(one for one in self._marks if one.tokens < tokens), made]
            self._thin()

    def settle(self, tokens: list[int]) -> bool:
        """The cache holds these tokens now. False when its slots count otherwise: then nobody knows."""
        counts = {slot.offset for slot in self.caches if hasattr(slot, "offset")}
        self.held = tokens if counts <= {len(tokens)} else None
        return self.held is not None

    def _thin(self) -> None:
        budget = SHARE * snapshot(self.caches).counted.total
        while len(self._marks) > 1 and (len(self._marks) > MOST or self._least() > budget):
            others = [[m for m in self._marks if m is not made] for made in self._marks]
            self._marks = min(others, key=self._read_again)
        if self._least() > budget:
            return
        for index, made in enumerate(self._marks):
            if self.mark_bytes <= budget:
                return
            self._marks[index] = cut(self.caches, made, made.lowest)

    def _least(self) -> int:
        return sum(made.bytes_at(made.lowest) for made in self._marks)

    def _read_again(self, marks: Sequence[Mark]) -> float:
        """Tokens a person's next step back is expected to read again, with these marks."""
        expected = 0.0
        for back, turn in enumerate(reversed(self._turns)):
            nearest = max((made.tokens for made in marks if made.tokens <= turn), default=0)
            expected += (turn - nearest) * (_EDITED * _FADING**back if back else 1.0)
        return expected


def live_for(
    tokens: Sequence[int], live: LiveCache | None, known: Sequence[int], make: Callable[[], list[Any]]
) -> tuple[LiveCache, Reuse]:
    """The cache to read a conversation with, and what it has of it: ``live`` gone back, or a fresh one.

    Args:
        known: tokens that were read last, by whichever cache. make: gives the list of a fresh one.
    """
    seen = min(common(known, tokens), len(tokens) - 1)
    kept = live.go_back(tokens) if live is not None else 0
    if live is None or not kept:
        live = LiveCache(make())
    return live, Reuse(kept, max(0, seen - kept))


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest beginning that both have."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
