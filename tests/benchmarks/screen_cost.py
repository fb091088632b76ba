"""What the screen takes from the engine: the same reply with the window on it and without any.

    xvfb-run -a -s "-screen 0 1280x800x24" python -m tests.benchmarks.screen_cost MODEL [replies] [tokens]

Two engines in one process answer the same prompt in turn: one belongs to the whole window, the other to
nobody. Prints the tokens per second of each, the share the screen takes, and whether the replies are the same
to the letter. The budget is 1 %.
"""

import dataclasses
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEventLoop

from studio.app import make_app, open_window
from studio.core.request import Request
from studio.core.store import Store
from studio.selftest import PROMPT
from studio.ui.engine import Engine
from studio.ui.theme import Scheme
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.openblas import ensure_openblas
from veloxquant_mlx.steps import FinishedStep


def main() -> None:
    """Print the table."""
    ensure_openblas()
    model = str(Path(sys.argv[1]).absolute())
    replies = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    with tempfile.TemporaryDirectory() as home:
        os.environ["VELOXQUANT_HOME"] = home
        app = make_app(sys.argv[:1], Scheme.Dark)
        window = open_window(app, None, Scheme.Dark, Store(Path(home) / "chats.sqlite"))
        shown, alone = window.engine, Engine()
        asked: list[Request] = []
        answer = shown.answer

        def ask(request: Request) -> None:
            sampling = dataclasses.replace(request.sampling, max_tokens=tokens, temperature=0.0)
            # Neither keeps its reply on disk: that is no work of the screen's.
            asked.append(dataclasses.replace(request, sampling=sampling, journal=None))
            answer(asked[-1])

        shown.answer = ask  # type: ignore[method-assign]
        configure = shown.configure

        def set_both(config: KVCacheConfig) -> None:
            alone.configure(config)
            configure(config)

        shown.configure = set_both  # type: ignore[method-assign]
        alone.start()
        _wait(shown, "methods_ready", lambda: None)
        for engine in (shown, alone):
            engine.compare(False)
            _wait(engine, "loaded", partial(engine.load, model))
        speeds: dict[str, list[float]] = {"with the screen": [], "without": []}
        texts: set[str] = set()
        for turn in range(replies + 1):
            window.new_chat()
            alone.new_chat()
            for where in speeds:
                if where == "without":
                    step: FinishedStep = _wait(alone, "finished", lambda: alone.answer(asked[-1]))
                    alone.drain()
                else:
                    step = _wait(shown, "finished", lambda: window.send(PROMPT))
                texts.add(step.text)
                if turn:  # The first one warms up.
                    speeds[where].append(step.decode_speed or 0.0)
        alone.close()
        window.close()
    middle = {where: statistics.median(found) for where, found in speeds.items()}
    for where, found in speeds.items():
        print(
            f"{where}: {middle[where]:.2f} tokens/s median of {', '.join(f'{speed:.2f}' for speed in found)}"
        )
    print(f"the screen takes {1 - middle['with the screen'] / middle['without']:.1%}; "
          f"the replies are {'the same' if len(texts) == 1 else 'DIFFERENT'} to the letter")  # fmt: skip


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
