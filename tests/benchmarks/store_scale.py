"""How long the list and the search take over 10,000 chats with 200,000 messages.

    python -m tests.benchmarks.store_scale [chats] [messages per chat]

Prints milliseconds; the budget for each answer is 50 ms. Filling the store takes about a minute.
"""

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from studio.core import database
from studio.core.conversation import Figures
from studio.core.store import Store

ROUNDS = 20


def main() -> None:
    """Print the table."""
    chats = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    words = _words()
    pick = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "chats.sqlite")
        began = time.perf_counter()
        with database.transaction(store._connection):
            for number in range(chats):
                chat = store.new_chat(" ".join(pick.choices(words, k=6)))
                parent = None
                for turn in range(each):
                    text = " ".join(pick.choices(words, k=60))
                    message = store.add(chat.id, parent, ("user", "assistant")[turn % 2], text)
                    if message.role == "assistant":
                        store.finish(message.id, text, "stop", Figures())
                    parent = message.id
                if number % 100 == 0:
                    print(f"\rfilling: {number:,} of {chats:,} chats", end="", file=sys.stderr, flush=True)
        print(f"\r{chats:,} chats, {chats * each:,} messages, filled in {time.perf_counter() - began:.0f} s")
        store.close()
        _time("open the store", lambda: Store(Path(folder) / "chats.sqlite").close())
        store = Store(Path(folder) / "chats.sqlite")
        _time("first page of the list", store.chats)
        _time("list of all chats", lambda: store.chats(chats))
        _time("open a chat", lambda: store.conversation(pick.randrange(1, chats)))
        for query in ("t", "th", "the", "the and of", "viola", "shipwreck", "viola orsino", "zzz"):
            _time(f"search '{query}'", lambda query=query: store.search(query))
        store.close()


def _time(name: str, work: object) -> None:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()  # type: ignore[operator]
        took.append(1000 * (time.perf_counter() - began))
    print(f"{name}: median {statistics.median(took):.1f} ms, worst {max(took):.1f} ms")


def _words() -> list[str]:
    import veloxquant_mlx

    text = (Path(veloxquant_mlx.__file__).parent / "texts" / "twelfth-night.md").read_text("utf-8")
    return [word for word in text.split() if word.isascii()]


if __name__ == "__main__":
    main()
