"""The server as people meet it: a process, a real OpenAI client, connections that break."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import openai
import pytest

from tests.tiny import tiny_folder

ROOT = Path(__file__).resolve().parents[2]
METHOD = "skvq:Smallest,skvq_window=16,skvq_recent=16"


class Server:
    """``veloxquant serve`` in a process of its own."""

    def __init__(self, model: Path, *arguments: str, method: str = METHOD) -> None:
        command = [sys.executable, "-m", "veloxquant_mlx", "serve", "--model", str(model), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--method", method, *arguments],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
        )  # fmt: skip
        self.plan = self.line()
        self.told = self.line()
        self.url = next((word.rstrip(",") for word in self.told.split() if word.startswith("http")), "")
        self.client = openai.OpenAI(base_url=self.url or "http://", api_key="none", max_retries=0)
        self.model = model.name

    def line(self) -> str:
        """The next line it prints; waits for it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def end(self) -> tuple[int, str]:
        """Press Ctrl-C; exit code and what stood on standard error."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors

    def say(self, *texts: str, tokens: int = 8) -> "tuple[str, int]":
        """Answer of a conversation whose turns alternate, and the prompt tokens that were not read again."""
        roles = ("user", "assistant")
        messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
        answer = self.client.chat.completions.create(
            model=self.model,
            messages=messages,  # type: ignore[arg-type]
            max_tokens=tokens,
        )
        details = answer.usage.prompt_tokens_details if answer.usage else None
        return answer.choices[0].message.content or "", (details.cached_tokens or 0) if details else 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama", max_position_embeddings=2048)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    made = Server(folder)
    yield made
    code, errors = made.end()
    assert code == 130
    assert errors.strip() == "veloxquant: stopped."


LONG = "the inner thing is on the table and here is more of it, " * 8


def test_it_says_what_it_does_before_it_serves(server: Server) -> None:
    assert server.plan == "tiny-llama, CPU float32, through SKVQ. All 3 slots compressed."
    assert server.told.startswith("Serving at http://127.0.0.1:")


def test_a_chat_is_answered_through_a_compressed_cache(server: Server) -> None:
    text, _ = server.say(LONG, tokens=12)
    assert text
    told = server.line()
    assert "times smaller, counted end to end" in told
    assert "nothing compressed" not in told


def test_the_models_list_has_the_one_model(server: Server) -> None:
    assert [model.id for model in server.client.models.list()] == ["tiny-llama"]
    assert server.client.models.retrieve("tiny-llama").id == "tiny-llama"
    with pytest.raises(openai.NotFoundError, match="This server has 'tiny-llama', not 'other'"):
        server.client.models.retrieve("other")


def test_streams_bring_the_same_text(server: Server) -> None:
    whole, _ = server.say(LONG)
    server.line()
    stream = server.client.chat.completions.create(
        model="tiny-llama", messages=[{"role": "user", "content": LONG}], max_tokens=8, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    server.line()
    assert text == whole
    assert usage is not None and usage.completion_tokens == 8


def test_completions_are_answered(server: Server) -> None:
    answer = server.client.completions.create(model="tiny-llama", prompt=LONG, max_tokens=5)
    server.line()
    assert answer.choices[0].finish_reason in ("length", "stop")
    assert answer.usage is not None and answer.usage.completion_tokens == 5


def test_a_conversation_is_not_read_again(server: Server) -> None:
    first, _ = server.say(LONG)
    server.line()
    second, kept = server.say(LONG, first, "and then?")
    server.line()
    assert kept > len(LONG) // 8
    # The last question once more goes back to where it was asked, and comes to the same answer.
    again, all_but_one = server.say(LONG, first, "and then?")
    server.line()
    assert again == second
    assert all_but_one > kept
    # Another conversation begins afresh, and does not disturb the first.
    server.say("Something else entirely: " + LONG[::-1])
    server.line()
    assert server.say(LONG)[0] == first
    server.line()


def test_another_model_s_name_is_refused(server: Server) -> None:
    with pytest.raises(openai.NotFoundError, match="This server has 'tiny-llama', not 'gpt-4': ask for that"):
        server.client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": "hi"}])


def test_too_long_a_prompt_is_refused(server: Server) -> None:
    with pytest.raises(openai.BadRequestError, match="reads at most 2,048: shorten it"):
        server.say("far too long " * 1000)


def test_an_answer_ends_where_the_context_does(server: Server) -> None:
    prompt = LONG * 6
    answer = server.client.completions.create(model="tiny-llama", prompt=prompt, max_tokens=100_000)
    server.line()
    assert answer.usage is not None and answer.usage.total_tokens <= 2048


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("chat/completions", b'{"messages": [', "Invalid JSON in request body"),
        ("chat/completions", b"\xff\xfe", "not text in UTF-8"),
        ("chat/completions", b"[]", "Request should be a JSON dictionary"),
        ("chat/completions", b"{}", "'messages' must be a list of objects"),
        ("chat/completions", b'{"messages": "hi"}', "'messages' must be a list of objects"),
        ("chat/completions", b'{"messages": [{"role": "user", "content": ""}], "top_p": 2}', "top_p"),
        (
            "chat/completions",
            b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "http://x"}]}]}',
            "Only text can be read here",
        ),
        ("completions", b'{"prompt": ["a", "b"]}', "'prompt' must be one text"),
        ("completions", b'{"prompt": ""}', "The prompt is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_one_sentence(
    server: Server, path: str, body: bytes, words: str
) -> None:
    status, answer = _post(server.url, path, body)
    assert status == 400
    error = json.loads(answer)["error"]
    assert words in (error["message"] if isinstance(error, dict) else error)


def test_nobody_writes_for_a_client_that_left(server: Server) -> None:
    at = urlsplit(server.url)
    body = json.dumps({"prompt": LONG, "max_tokens": 1700, "stream": True}).encode()
    with socket.create_connection((at.hostname, at.port)) as connection:
        connection.sendall(_request(f"{at.path}/completions", body))
        assert b"data: " in _until(connection, b"data: ")
    held = int(server.line().split()[1].replace(",", ""))
    assert held < 1700
    server.say("hello")
    server.line()


def test_a_waiting_client_that_left_is_found_out_too(server: Server) -> None:
    at = urlsplit(server.url)
    body = json.dumps({"prompt": LONG, "max_tokens": 1700}).encode()
    with socket.create_connection((at.hostname, at.port)) as connection:
        connection.sendall(_request(f"{at.path}/completions", body))
    # Depending on when it is noticed the answer is broken off before or after its first token.
    server.say("hello")
    told = server.line()
    while int(told.split()[1].replace(",", "")) > 100:
        assert int(told.split()[1].replace(",", "")) < 1700
        told = server.line()


def test_a_port_that_is_taken_is_told_at_once(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _fails(folder, "--port", str(taken.getsockname()[1]))
    assert "is taken by another program: choose another with --port." in done


def test_an_address_that_is_not_here_is_told(folder: Path) -> None:
    assert "'192.0.2.1' is no address of this computer" in _fails(folder, "--host", "192.0.2.1")


def test_a_model_with_nothing_to_compress_is_not_served_as_compressed(tmp_path: Path) -> None:
    mamba = tiny_folder(tmp_path / "tiny-mamba", "mamba")
    told = _fails(mamba)
    assert told == (
        "veloxquant: None of 3 slots compressed: they keep a recurrent state, not keys and values; "
        "serve it with --method plain."
    )
    plain = Server(mamba, method="plain")
    assert "they keep a recurrent state" in plain.plan
    assert plain.say("hello there")[0] is not None
    assert plain.say("hello there")[0] == plain.say("hello there")[0]
    assert plain.end()[0] == 130


def test_ctrl_c_ends_it_in_the_middle_of_an_answer(folder: Path) -> None:
    made = Server(folder, "--max-tokens", "1500")
    at = urlsplit(made.url)
    body = json.dumps({"prompt": LONG, "stream": True}).encode()
    with socket.create_connection((at.hostname, at.port)) as connection:
        connection.sendall(_request(f"{at.path}/completions", body))
        _until(connection, b"data: ")
        code, errors = made.end()
    assert (code, errors.strip()) == (130, "veloxquant: stopped.")


def _fails(model: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "veloxquant_mlx", "serve", "--model", str(model), "--port", "0"]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr.strip()


def _request(path: str, body: bytes) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json"]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def _until(connection: socket.socket, wanted: bytes) -> bytes:
    got = b""
    while wanted not in got:
        part = connection.recv(65536)
        assert part, got
        got += part
    return got


def _post(url: str, path: str, body: bytes) -> tuple[int, bytes]:
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port)) as connection:
        connection.sendall(_request(f"{at.path}/{path}", body))
        got = b""
        while part := connection.recv(65536):
            got += part
    head, _, answer = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), answer
