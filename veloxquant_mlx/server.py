"""mlx_lm's OpenAI-compatible server with compressed caches: one model, one request at a time.

Nothing of mlx_lm is changed for it. Its server asks three objects that it is handed: who loads the model,
who keeps caches between requests, and who answers a connection; here are ours.
"""

import errno
import json
import logging
import select
import socket
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import mlx.core as mx
from mlx_lm.server import APIHandler, GenerationContext, ModelProvider, ResponseGenerator

from . import attention
from .builder import KVCacheBuilder
from .cache.slot import snapshot
from .config import KVCacheConfig
from .errors import Cancelled, VeloxQuantError
from .live import LiveCache, live_for
from .models.load import LoadedModel, load_model, release_memory
from .progress import Progress, silent
from .steps import Plan
from .telemetry import CacheSnapshot

_log = logging.getLogger(__name__)

_USUAL: dict[str, Any] = {
    "model": None, "adapter_path": None, "draft_model": None, "num_draft_tokens": 3, "pipeline": False,
    "trust_remote_code": False, "chat_template": "", "use_default_chat_template": False,
    "chat_template_args": {}, "temp": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
    "decode_concurrency": 1, "prompt_concurrency": 1, "prefill_step_size": 256, "prompt_cache_size": 1,
    "prompt_cache_bytes": None, "kv_bits": None, "kv_group_size": 64, "quantized_kv_start": 0,
    # No web page may read answers: a program asks from nowhere and needs no leave.
    "allowed_origins": (),
}  # fmt: skip
"""What mlx_lm's command line would have told its server."""

Answered = Callable[[CacheSnapshot], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """What is being served."""

    url: str
    """Base address for clients, ``http://HOST:PORT/v1``."""
    model: str
    """The name clients ask for."""
    compute: str
    context: int | None
    plan: Plan


def serve(
    folder: Path,
    config: KVCacheConfig,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    max_tokens: int = 512,
    ready: Callable[[Serving], None],
    answered: Answered | None = None,
    progress: Progress = silent,
) -> None:
    """Serve a model folder until KeyboardInterrupt.

    Args:
        port: 0 takes any that is free. max_tokens: most tokens of an answer that asks for no number.
        ready: told once requests are taken. answered: told of the cache after each answer.
        progress: of loading, on another thread.

    Raises VeloxQuantError, ModelError when the address can't be had, the model can't be loaded or the method
    finds nothing to compress in it.
    """
    http = _bind(host, port)
    provider = _Provider(folder, config, Namespace(**_USUAL, max_tokens=max_tokens), progress)
    generator = _Generator(provider, _Kept(provider.caches, answered))
    try:
        loaded, plan = provider.wait()
        http.RequestHandlerClass = partial(_Handler, generator, provider.name)
        url = f"http://{f'[{host}]' if ':' in host else host}:{http.server_address[1]}/v1"
        ready(Serving(url, provider.name, loaded.compute, loaded.context, plan))
        http.serve_forever(poll_interval=0.1)
    finally:
        provider.cancelled = True
        generator.stop()
        http.server_close()


def _bind(host: str, port: int) -> "_HTTPServer":
    """Before the model is loaded: that takes long, and a port that is taken stays so."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return type("_Bound", (_HTTPServer,), {"address_family": family})((host, port), APIHandler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"Port {port} is taken by another program: choose another with --port."
        elif error.errno == errno.EACCES:
            text = f"Port {port} needs more rights than you have: choose one above 1023 with --port."
        else:
            text = f"'{host}' is no address of this computer: leave --host out to serve only this computer."
        raise VeloxQuantError(text) from error


class _HTTPServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection broke: no reason to stop, and nobody is left to be told."""
        _log.info("A client went away before its answer was whole.", exc_info=True)


class _Provider(ModelProvider):
    """Loads the one model there is, on the thread that generates."""

    def __init__(self, folder: Path, config: KVCacheConfig, told: Namespace, progress: Progress) -> None:
        super().__init__(told)
        self.folder = folder
        self.name = folder.name
        self.config = config
        self.context: int | None = None
        self.cancelled = False
        self._progress = progress
        self._loaded: Queue[tuple[LoadedModel, Plan] | BaseException] = Queue()

    def wait(self) -> tuple[LoadedModel, Plan]:
        """The model once it is loaded. Raises what loading raised."""
        found = self._loaded.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def load_default(self) -> None:
        """Called once, before the first request."""
        try:
            self._loaded.put(self._load_model())
        except Exception as error:
            self._loaded.put(error)

    def _load_model(self) -> tuple[LoadedModel, Plan]:
        def report(fraction: float | None, words: str) -> None:
            if self.cancelled:
                raise Cancelled
            self._progress(fraction, words)

        loaded = load_model(self.folder, report)
        attention.enable(loaded.model)
        plan = KVCacheBuilder.plan(loaded.model, self.config)
        if plan.idle:
            attention.disable(loaded.model)
            raise VeloxQuantError(f"{plan.sentence.rstrip('.')}; serve it with --method plain.")
        self.model, self.tokenizer = loaded.model, loaded.tokenizer
        self.context = loaded.context
        self.model_key = (self.name, None, None)
        return loaded, plan

    def load(self, model_path: str, adapter_path: Any = None, draft_model_path: Any = None) -> Any:
        """The model, when the request names it. Raises LookupError for another one."""
        if model_path not in ("default_model", self.name):
            raise LookupError(f"This server has '{self.name}', not '{model_path}': ask for that name.")
        if adapter_path is not None or draft_model_path not in (None, "default_model"):
            raise VeloxQuantError("This server loads no adapters and no draft models: leave them out.")
        return self.model, self.tokenizer

    def caches(self) -> list[Any]:
        """A fresh cache list for the model."""
        return KVCacheBuilder.for_model(self.model, self.config)

    def reset(self) -> None:
        """Called at the end, on the thread that generates: give the model back."""
        if self.model is not None:
            attention.disable(self.model)
        super().reset()
        release_memory()
        # A thread that ends with streams of its own would bring the process down when that ends too.
        mx.synchronize()
        mx.clear_streams()


class _Kept:
    """In the place of mlx_lm's store of prompt caches: the compressed cache of the last answer.

    A prompt that begins like it goes on from there, exactly rewound where it differs; any other one begins
    with a fresh cache. A cache is here only while no request uses it: what an aborted one leaves is gone.
    """

    def __init__(self, make: Callable[[], list[Any]], answered: Answered | None) -> None:
        self._make = make
        self._answered = answered
        self._live: LiveCache | None = None
        self._in_use: LiveCache | None = None
        self._prompt = 0

    def fetch_nearest_cache(self, model: Any, tokens: list[int]) -> tuple[list[Any], list[int]]:
        """A cache for a prompt, and the tokens it has not read, one at least."""
        live, self._live, self._in_use = self._live, None, None
        live, reuse = live_for(tokens, live, (), self._make)
        live.begin(len(tokens))
        self._in_use, self._prompt = live, len(tokens)
        return live.caches, list(tokens[reuse.kept :])

    def read(self, left: int) -> None:
        """A prompt is read but for so many tokens. Before the last one is where asking again goes back to."""
        if left == 1 and self._in_use is not None:
            self._in_use.mark(self._prompt - 1)

    def insert_cache(self, model: Any, tokens: list[int], caches: list[Any], **_: Any) -> None:
        """An answer is whole: its cache holds ``tokens``."""
        live, self._in_use = self._in_use, None
        if live is not None and live.caches is caches and live.settle(list(tokens)):
            self._live = live
            if self._answered is not None:
                self._answered(snapshot(caches, len(tokens)))

    def __len__(self) -> int:
        return int(self._live is not None)

    @property
    def nbytes(self) -> int:
        """Bytes held between requests (measured)."""
        return snapshot(self._live.caches).resident_bytes if self._live is not None else 0

    def stats_by_type(self) -> dict[str, Any]:
        """Nothing to tell apart."""
        return {}


class _Generator(ResponseGenerator):
    """mlx_lm's thread that answers request after request; it can be stopped within one."""

    def __init__(self, provider: _Provider, kept: _Kept) -> None:
        self.running: GenerationContext | None = None
        super().__init__(provider, kept)

    def stop(self) -> None:
        """Break off what is being written and end the thread."""
        self._stop = True
        if self.running is not None:
            self.running.stop()
        self.join()

    def _tokenize(self, tokenizer: Any, request: Any, args: Any) -> Any:
        found = super()._tokenize(tokenizer, request, args)
        tokens, most = len(found[0]), self.model_provider.context
        if not tokens:
            raise VeloxQuantError("The prompt is empty: send some text.")
        if most is not None and tokens >= most:
            raise VeloxQuantError(
                f"The prompt is {tokens:,} tokens long, but {self.model_provider.name} reads at most "
                f"{most:,}: shorten it."
            )
        if most is not None:
            args.max_tokens = min(args.max_tokens, most - tokens)
        return found

    def _serve_single(self, request: Any, stream: Any) -> None:
        answers, *asked = request
        super()._serve_single((_Answers(self, answers), *asked), stream)
        self.running = None


class _Answers:
    """The queue of one request; the prompt is read no further once nobody waits for the answer."""

    def __init__(self, generator: _Generator, queue: Queue[Any]) -> None:
        self._generator = generator
        self._queue = queue

    def put(self, item: Any) -> None:
        """Hand something on. Raises Cancelled between two blocks of a prompt that is not wanted any more.

        A tuple says, on the thread that generates, how much of the prompt is read.
        """
        if isinstance(item, GenerationContext):
            self._generator.running = item
        running = self._generator.running
        if isinstance(item, tuple):
            if self._generator._stop or (running is not None and running._should_stop):
                raise Cancelled
            done, total = item
            self._generator.prompt_cache.read(total - done)
        self._queue.put(item)


class _Refused(BaseException):
    """A request that is not answered. mlx_lm's handler turns every Exception into "not found"."""


class _Asked:
    """The generator as one connection sees it: it is asked no longer than somebody listens."""

    def __init__(self, generator: _Generator, handler: "_Handler") -> None:
        self._generator = generator
        self._handler = handler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def generate(self, request: Any, args: Any, progress_callback: Callable[[int, int], None]) -> Any:
        """See ResponseGenerator. Raises _Refused when the request is not taken."""

        def progress(done: int, total: int) -> None:
            self._listening()
            progress_callback(done, total)

        try:
            context, answers = self._generator.generate(request, args, progress)
        except Exception as error:
            raise _Refused from error
        return context, self._while_listening(answers)

    def _while_listening(self, answers: Iterator[Any]) -> Iterator[Any]:
        for answer in answers:
            self._listening()
            yield answer

    def _listening(self) -> None:
        connection = self._handler.connection
        # A closed connection reads as empty; a client that waits sends nothing.
        if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
            raise ConnectionAbortedError


class _Handler(APIHandler):
    """One connection. What goes wrong reaches the client as one sentence in OpenAI's form."""

    def __init__(self, generator: _Generator, name: str, *request: Any) -> None:
        self._name = name
        self._streams = False
        super().__init__(_Asked(generator, self), *request)

    def do_POST(self) -> None:
        """Answer, or say why not."""
        try:
            super().do_POST()
        except ConnectionError:
            raise
        except _Refused as refusal:
            self._refuse(refusal.__cause__)
        except UnicodeDecodeError:
            self._refuse(VeloxQuantError("The request is not text in UTF-8: send JSON."))
        except Exception as error:
            self._refuse(error)

    def _refuse(self, error: BaseException | None) -> None:
        known = isinstance(error, (VeloxQuantError, LookupError, ValueError))
        status = 404 if type(error) is LookupError else 400 if known else 500
        if known:
            sentence = " ".join(str(error.args[0] if error and error.args else error).split())
        else:
            _log.error("A request failed.", exc_info=error)
            sentence = (
                f"Something unexpected stopped the answer ({type(error).__name__}): see the server's log."
            )
        kind = "invalid_request_error" if known else "server_error"
        body = json.dumps({"error": {"message": sentence, "type": kind, "code": status}})
        if self._streams:
            self.wfile.write(f"data: {body}\n\n".encode())
            return
        # A status of success may be waiting to be sent with the answer that did not come.
        self._headers_buffer: list[bytes] = []
        self._set_completion_headers(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def _set_stream_headers(self, status_code: int = 200) -> None:
        self._streams = True
        super()._set_stream_headers(status_code)

    def handle_chat_completions(self) -> Any:
        """Text messages only: mlx_lm would fetch the pictures of others from the network."""
        messages = self.body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
            raise ValueError("'messages' must be a list of objects with a role and a content.")
        for message in messages:
            parts = message.get("content")
            if isinstance(parts, list) and any(
                not isinstance(part, dict) or part.get("type") != "text" for part in parts
            ):
                raise ValueError("Only text can be read here: leave other content out.")
        return super().handle_chat_completions()

    def handle_text_completions(self) -> Any:
        """One prompt at a time."""
        if not isinstance(self.body.get("prompt"), str):
            raise ValueError("'prompt' must be one text.")
        return super().handle_text_completions()

    def handle_models_request(self) -> None:
        """The one model there is; mlx_lm would list everything in the hub's folder."""
        model = {"id": self._name, "object": "model", "created": self.created, "owned_by": "local"}
        asked = self.path.split("?")[0].removeprefix("/v1/models").strip("/")
        if asked and asked != self._name:
            self._refuse(LookupError(f"This server has '{self._name}', not '{asked}': ask for that name."))
            return
        body = model if asked else {"object": "list", "data": [model]}
        self._set_completion_headers(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """To the log instead of the terminal."""
        _log.info(format, *args)
