"""What the screen takes from the engine: the same reply with the window on it and with nobody looking.

    xvfb-run -a -s "-screen 0 1280x800x24" python -m tests.benchmarks.screen_cost MODEL [pairs] [tokens]

One engine answers the same prompt again and again, in turn before its window as always and with the window
hidden and its timer still, so that nobody looks before the end. (Of two engines, with nobody before either,
one was found to be 2 % slower than the other.) Each pair of neighbouring replies is compared by itself, and
pairs begin with either in turn, so that what else the machine does falls out. Prints the median share of the
engine's speed that the screen takes with the interval that holds it in 95 of 100 cases, the processor time of
the window's thread while a reply is written, which scatters far less, and whether the replies are the same to
the letter. The budget is 1 %.
"""

import dataclasses
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEventLoop

from studio.app import make_app, open_window
from studio.core.request import Request
from studio.core.store import Store
from studio.selftest import PROMPT
from studio.ui.theme import Scheme
from veloxquant_mlx.openblas import ensure_openblas
from veloxquant_mlx.steps import FinishedStep, Step

WRITING = "generating"


def main() -> None:
    """Print the table."""
    ensure_openblas()
    model = str(Path(sys.argv[1]).absolute())
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    with tempfile.TemporaryDirectory() as home:
        os.environ["VELOXQUANT_HOME"] = home
        app = make_app(sys.argv[:1], Scheme.Dark)
        window = open_window(app, None, Scheme.Dark, Store(Path(home) / "chats.sqlite"))
        engine = window.engine
        answer = engine.answer

        def ask(request: Request) -> None:
            sampling = dataclasses.replace(request.sampling, max_tokens=tokens, temperature=0.0)
            # What is kept of a reply on disk is no work of the screen's.
            answer(dataclasses.replace(request, sampling=sampling, journal=None))

        engine.answer = ask  # type: ignore[method-assign]
        _wait(engine, "methods_ready", lambda: None)
        engine.compare(False)
        _wait(engine, "loaded", partial(engine.load, model))
        texts: set[str] = set()
        own: list[float] = []
        shares: list[float] = []
        engine.state_changed.connect(
            lambda state: own.append(time.thread_time()) if state == WRITING else None
        )
        looked, take = [0.0], window.flow.take

        def take_noted(steps: Iterable[Step]) -> bool:
            looked[0] = time.thread_time()
            return take(steps)

        window.flow.take = take_noted  # type: ignore[method-assign]

        def reply() -> FinishedStep:
            window.new_chat()
            # As for whoever wrote the message: the cursor stands in the box.
            window.activateWindow()
            window.chat.prompt.setFocus()
            step: FinishedStep = _wait(engine, "finished", lambda: window.send(PROMPT))
            # Up to the last look: what follows it, like keeping the reply, waits for the engine's end.
            own[-1] = 1000 * (looked[0] - own[-1]) / step.reply_tokens
            return step

        def without() -> FinishedStep:
            window.hide()
            window.timer.start = lambda *_: None  # type: ignore[method-assign]
            step = reply()
            own.pop()
            del window.timer.start
            window.show()
            return step

        for turn in range(pairs + 1):
            kinds = (reply, without) if turn % 2 == 0 else (without, reply)
            steps = {kind: kind() for kind in kinds}
            texts |= {step.text for step in steps.values()}
            speeds = {kind: step.decode_speed or 0.0 for kind, step in steps.items()}
            print(f"{speeds[reply]:.2f} tokens/s with the screen, {speeds[without]:.2f} without")
            # The first pair warms up.
            if turn:
                shares.append(1 - speeds[reply] / speeds[without])
        window.close()
    low, high = interval(shares)
    same = "the same" if len(texts) == 1 else "DIFFERENT"
    print(f"the screen takes {statistics.median(shares):.1%} ({low:.1%} to {high:.1%})")
    print(f"the window's thread works {statistics.median(own[1:]):.2f} ms a token")
    print(f"the replies are {same} to the letter")


def interval(found: list[float]) -> tuple[float, float]:
    """Between which of the values their true median lies in at least 95 of 100 cases, whatever the scatter.

    Each value lies below the median as often as above it, so that how many do follows a fair coin.
    """
    ordered, count = sorted(found), len(found)
    outside, skipped = 0.0, 0
    while (outside := outside + 2 * math.comb(count, skipped) / 2**count) <= 0.05:
        skipped += 1
    return ordered[max(0, skipped - 1)], ordered[count - max(1, skipped)]


def _wait(engine: Any, signal: str, begin: Callable[[], None]) -> Any:
    """Begin something and run the event loop until the engine tells its end; gives what it told."""
    loop, told = QEventLoop(), []

    def end(*what: Any) -> None:
        told.append(what[0] if what else None)
        loop.quit()

    def fail(where: str, sentence: str, details: str) -> None:
        raise SystemExit(f"{where}: {sentence}\n{details}")

    getattr(engine, signal).connect(end)
    engine.failed.connect(fail)
    begin()
    loop.exec()
    getattr(engine, signal).disconnect(end)
    engine.failed.disconnect(fail)
    return told[0]


if __name__ == "__main__":
    main()
