"""What a reply of 10,000 tokens costs the screen, frame by frame, while it comes.

    xvfb-run -a python -m tests.benchmarks.long_reply [tokens]

Plays Markdown with lists, code and tables into a shown conversation, some tokens per tick as a fast model
gives them, and prints how long each tick with its layout and painting took; the budget of a frame is 50 ms.
Processor time is the figure to compare on a machine that does other work too.
"""

import statistics
import sys
import time
from collections.abc import Iterator

from PySide6.QtWidgets import QApplication

from studio.core.conversation import Figures, Message
from studio.ui import textview
from studio.ui.chat import Chat
from studio.ui.theme import Scheme, apply_theme

TOKENS_PER_TICK = 5
"""A hundred tokens per second at twenty ticks."""

PARAGRAPH = (
    "The **sky** looks blue because air scatters short waves of light more than long ones; the effect grows "
    "with the fourth power of `1/wavelength`, so that violet and blue come from *every* direction. "
)
CODE = (
    "```python\ndef scatter(wave: float) -> float:\n    # Rayleigh\n    return 1.0 / wave**4\n\n" * 3
    + "```\n\n"
)
LIST = "".join(f"{number}. an item with **bold** words and `code`\n" for number in range(1, 13)) + "\n"
TABLE = "| colour | nm |\n|---|---|\n" + "| blue | 450 |\n| red | 700 |\n" * 4 + "\n"


def main() -> None:
    """Print the figures of the run."""
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    # The ticks of this run follow at once: none may be spared its layout for coming too early.
    textview.SHARE = 0
    app = QApplication([])
    apply_theme(app, Scheme.Dark, 1.0)
    chat = Chat()
    chat.resize(760, 500)
    chat.show()
    asked = Message(1, None, "user", "Tell me everything about light.")
    chat.show_path([asked, Message(2, 1, "assistant", "")], lambda id: [id])
    chat.set_ready("")
    chat.begin("reply")
    text: list[str] = []
    wall: list[float] = []
    cpu: list[float] = []
    for piece in [*_ticks(tokens), None]:
        began, used = time.perf_counter(), time.process_time()
        if piece is None:
            done = Figures(reply_tokens=tokens)
            chat.finish(Message(2, 1, "assistant", "".join(text), ended="stop", figures=done))
        else:
            chat.append(piece)
            text.append(piece)
        app.processEvents()
        cpu.append(1000 * (time.process_time() - used))
        wall.append(1000 * (time.perf_counter() - began))
    print(f"{tokens:,} tokens, {sum(map(len, text)):,} characters, {len(wall):,} frames, the end among them")
    quarter = len(wall) // 4
    for name, frames in (("processor time", cpu), ("wall time", wall)):
        ordered = sorted(frames)
        print(
            f"{name}: median {statistics.median(frames):.1f} ms, "
            f"99 % {ordered[int(0.99 * len(frames))]:.1f} ms, "
            f"worst {ordered[-1]:.1f} ms, {sum(frame > 50 for frame in frames)} above 50 ms; "
            f"first quarter {statistics.median(frames[:quarter]):.1f} ms, "
            f"last quarter {statistics.median(frames[-quarter:]):.1f} ms"
        )


def _ticks(tokens: int) -> Iterator[str]:
    """The text in pieces of about four characters a token."""
    block = PARAGRAPH * 2 + "\n\n" + LIST + PARAGRAPH + "\n\n" + CODE + TABLE + "## A heading\n\n"
    text = (block * (4 * tokens // len(block) + 1))[: 4 * tokens]
    for start in range(0, len(text), 4 * TOKENS_PER_TICK):
        yield text[start : start + 4 * TOKENS_PER_TICK]


if __name__ == "__main__":
    main()
