"""A reply on disk as it grows, with the figures that are kept of it. No Qt."""

import contextlib
import logging
from collections.abc import Iterator

from studio.core.conversation import Figures
from studio.core.messages import Journal, StoreError
from studio.core.request import Request
from veloxquant_mlx.steps import FinishedStep, Step, TokenStep

_log = logging.getLogger(__name__)


class KeptReply:
    """Keeps a reply on disk as it grows. What can't be kept any more is said in the log and goes on."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._journal: Journal | None = None

    def __enter__(self) -> "KeptReply":
        if self._request.journal is not None:
            with self._without_failing():
                self._journal = Journal(self._request.journal, self._request.message)
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def take(self, step: Step) -> None:
        """Keep what a step brings."""
        journal, request = self._journal, self._request
        if journal is None:
            return
        with self._without_failing():
            if isinstance(step, TokenStep):
                journal.append(step.text)
            elif isinstance(step, FinishedStep):
                journal.finish(step.text, step.reason, figures_of(step, request.model, request.cache))

    @contextlib.contextmanager
    def _without_failing(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            # The screen keeps the reply at its end, and says what is wrong if that fails too.
            _log.warning("%s", error)
            self._journal = None


def figures_of(step: FinishedStep, model: str, cache: str) -> Figures:
    """A reply's figures as they are kept with it."""
    return Figures(
        prompt_tokens=step.prompt_tokens,
        kept_tokens=step.reuse.kept if step.reuse else None,
        again_tokens=step.reuse.again if step.reuse else None,
        reply_tokens=step.reply_tokens,
        tokens_per_second=step.decode_speed,
        context_tokens=step.snapshot.tokens or None,
        model=model,
        cache=cache,
    )
