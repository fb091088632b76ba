"""The running reply as the window sees it: which steps belong to it, and what they add up to."""

import time
from collections.abc import Iterable

from studio.ui.charts_host import ChartsHost
from studio.ui.chat import Chat
from veloxquant_mlx.steps import FinishedStep, PrefillStep, Step
from veloxquant_mlx.telemetry import CacheSnapshot

REREAD = "reread"
"""The kind of run that reads the conversation again through another cache and writes nothing."""


class ReplyFlow:
    """Hands steps to the conversation and the charts, and keeps the newest figures.

    A reply that was left behind by a new chat still ends in its own time; its steps are dropped.
    """

    def __init__(self, chat: Chat, charts: ChartsHost) -> None:
        self._chat, self._charts = chat, charts
        self.active = False
        self.rereading: PrefillStep | None = None
        """How far reading again has come, None while it has not begun."""
        self.snapshot: CacheSnapshot | None = None
        self.speed: float | None = None
        """Tokens per second, measured: seen from here while a reply runs, the engine's own at its end."""
        self.reading_speed: float | None = None
        """Tokens per second of the last prompt that was read, measured."""
        self._kind = ""
        self._before: CacheSnapshot | None = None
        self._left_behind = self._left_rereads = 0
        self._last_end: FinishedStep | None = None
        self._first_token: tuple[float, int] | None = None

    def begin(self, kind: str) -> None:
        """A run begins: ``reply``, ``regenerate`` or ``reread``."""
        self.active = True
        self._kind = kind
        if kind == REREAD:
            self._before = self.snapshot
            self._charts.begin_again()
        else:
            self.speed = self._first_token = None
            self._chat.begin(kind)

    @property
    def replying(self) -> bool:
        """True while a reply is read for or written."""
        return self.active and self._kind != REREAD

    def end_reread(self, *, whole: bool) -> None:
        """Reading again ended; unless it read the ``whole`` conversation, the figures before it return."""
        if self._left_rereads:
            self._left_rereads -= 1
        elif self.active and self._kind == REREAD:
            self.active, self.rereading = False, None
            if not whole:
                self.snapshot = self._before
            self._charts.end_again(whole=whole)

    def forget(self) -> None:
        """The conversation is gone; a reply that still runs belongs to nothing any more."""
        self._left_behind += self.replying
        self._left_rereads += self.active and not self.replying
        self.active, self.rereading = False, None
        self.snapshot = self.speed = None
        self._charts.clear()

    def take(self, steps: Iterable[Step]) -> bool:
        """Use what came. True when the reply ended with it."""
        text: list[str] = []
        ended = False
        for step in steps:
            if self._left_behind or self._left_rereads or not self.active:
                if isinstance(step, FinishedStep):
                    self._end(step)
                continue
            self.snapshot = step.snapshot
            self._charts.append(step)
            if isinstance(step, PrefillStep) and self._kind == REREAD:
                self.rereading = step
            elif isinstance(step, PrefillStep):
                self._chat.prefill(step.done, step.total, step.reuse)
            elif isinstance(step, FinishedStep):
                self._chat.append("".join(text))
                text.clear()
                ended = self._end(step)
            else:
                text.append(step.text)
                self._measure(step.count)
        self._chat.append("".join(text))
        if ended:
            self._charts.settle()
        else:
            self._charts.refresh()
        return ended

    def end(self, step: FinishedStep) -> bool:
        """The end as a signal, for an end that did not come among the steps."""
        return step is not self._last_end and self._end(step)

    def broke(self) -> bool:
        """A reply failed or was cancelled. True when it was the running one."""
        if self._left_behind:
            self._left_behind -= 1
            return False
        self.active = False
        self._charts.settle()
        return True

    def _end(self, step: FinishedStep) -> bool:
        self._last_end = step
        self.reading_speed = step.prefill_speed or self.reading_speed
        if self._left_behind:
            self._left_behind -= 1
            return False
        if not self.active:
            return False
        self.active = False
        self.snapshot, self.speed = step.snapshot, step.decode_speed
        return True

    def _measure(self, count: int) -> None:
        now = time.monotonic()
        if self._first_token is None:
            self._first_token = (now, count)
        elif now - self._first_token[0] > 0.5:
            self.speed = (count - self._first_token[1]) / (now - self._first_token[0])
