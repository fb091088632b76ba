"""A scripted chat in a process of its own that is killed at a random moment, and what must be left of it.

python -m tests.studio.core.killing FOLDER      the chat: tells on its output what it has saved
"""

import random
import signal
import subprocess
import sys
from pathlib import Path

from studio.core.conversation import Figures
from studio.core.messages import Journal
from studio.core.store import Store

ROOT = Path(__file__).resolve().parents[3]
TOKENS = 60
MOST_LINES = 400


def chat(folder: Path) -> None:
    """Ask and answer without end; ``said ID`` and ``token ID N`` are told once the thing is saved."""
    store = Store(folder / "chats.sqlite")
    while True:
        chat = store.new_chat("a question").id
        parent = None
        for _ in range(4):
            asked = store.add(chat, parent, "user", question(parent))
            print(f"said {asked.id}", flush=True)
            reply = store.add(chat, asked.id, "assistant", "")
            journal = Journal(store.path, reply.id)
            for number in range(TOKENS):
                journal.append(token(number))
                print(f"token {reply.id} {number + 1}", flush=True)
            journal.finish("".join(map(token, range(TOKENS))), "stop", Figures(context_tokens=TOKENS))
            journal.close()
            print(f"ended {reply.id}", flush=True)
            parent = reply.id


def token(number: int) -> str:
    """Each is another, so that a hole or a repetition shows."""
    return f" {number}"


def question(parent: int | None) -> str:
    """Words that can be checked afterwards."""
    return f"after {parent}"


def kill_once(folder: Path, seed: int) -> int:
    """Start the chat, kill it after some lines, and check what is left; the number of lines it had told.

    Raises AssertionError when something told is missing.
    """
    lines: list[str] = []
    wanted = random.Random(seed).randrange(1, MOST_LINES)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.studio.core.killing", str(folder)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if len(lines) == wanted:
                child.send_signal(signal.SIGKILL)
        # Whatever came through the pipe had been saved before.
        assert child.wait() == -signal.SIGKILL
    check(folder, [line.split() for line in lines if line.endswith("\n")])
    return len(lines)


def check(folder: Path, told: list[list[str]]) -> None:
    """The database is whole and holds all that was told."""
    store = Store(folder / "chats.sqlite")
    assert store.keeps and store.notice == ""
    assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    messages = {}
    for row in store.chats(100_000):
        talk = store.conversation(row.id)
        messages |= {message.id: message for message in talk.up_to(talk.leaf)}
    whole = "".join(map(token, range(TOKENS)))
    for what, id, *count in told:
        message = messages[int(id)]
        if what == "said":
            assert message.text == question(message.parent)
        elif what == "token":
            assert whole.startswith(message.text), message.text
            assert len(message.text.split()) >= int(count[0])
        else:
            assert (message.text, message.ended) == (whole, "stop")
    assert all(message.ended for message in messages.values() if message.role == "assistant")
    store.close()


if __name__ == "__main__":
    chat(Path(sys.argv[1]))
