"""A stand-in for the Hugging Face Hub on this machine: the part of its protocol that a download needs."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LARGE = 10_000
"""Bytes from which on a file is told by its SHA-256, as large files of the Hub are."""


class Hub:
    """What the server has and what it was asked; change it while it runs."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        """Repository -> file -> content."""
        self.asked: list[tuple[str, str]] = []
        """Path and Range of every file asked for."""
        self.gated: set[str] = set()
        self.limit: int | None = None
        """Bytes after which a connection breaks."""
        self.knows_ranges = True
        self.damages: str | None = None
        """A file that arrives with other bytes."""
        self.status: int | None = None
        """What it answers whatever it is asked."""
        self.hold: threading.Event | None = None
        """The second half of a file waits for it."""
        self.halfway = threading.Event()
        self.url = ""

    def add(self, repository: str, folder: Path, **more: bytes) -> None:
        """Take a model folder, and files by name (``__`` for a dot)."""
        held = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        self.files[repository] = held | {name.replace("__", "."): data for name, data in more.items()}

    def commit(self, repository: str) -> str:
        """Changes with the content."""
        digest = hashlib.sha1()
        for name, data in sorted(self.files[repository].items()):
            digest.update(name.encode() + data)
        return digest.hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """``hub`` at ``hub.url`` on 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        if hub.hold is not None:
            hub.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.hub.status is not None:
            self._answer(self.hub.status, {}, b"")
        elif path.startswith("/api/models/"):
            self._model(path.removeprefix("/api/models/"))
        elif "/resolve/" in path:
            repository, _, rest = path.strip("/").partition("/resolve/")
            # As the Hub does for large files: elsewhere is where the bytes are.
            self._answer(
                302, {"Location": f"{self.hub.url}/bytes/{repository}/{rest.partition('/')[2]}"}, b""
            )
        elif path.startswith("/bytes/"):
            self._bytes(path)
        else:
            self._answer(404, {}, b"")

    def _model(self, repository: str) -> None:
        if repository in self.hub.gated:
            self._answer(403, {"X-Error-Code": "GatedRepo"}, b"{}")
            return
        if repository not in self.hub.files:
            self._answer(404, {"X-Error-Code": "RepoNotFound"}, b"{}")
            return
        siblings = [_sibling(name, data) for name, data in self.hub.files[repository].items()]
        told = {"id": repository, "sha": self.hub.commit(repository), "siblings": siblings}
        self._answer(200, {"Content-Type": "application/json"}, json.dumps(told).encode())

    def _bytes(self, path: str) -> None:
        hub = self.hub
        owner, name, file = path.removeprefix("/bytes/").split("/")
        data = hub.files[f"{owner}/{name}"][file]
        if file == hub.damages:
            data = bytes(len(data))
        asked = self.headers.get("Range", "")
        hub.asked.append((file, asked))
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked and hub.knows_ranges else 0
        self.send_response(206 if start or (asked and hub.knows_ranges) else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        body = data[start:]
        if hub.limit is not None and len(body) > hub.limit:
            self.wfile.write(body[: hub.limit])
            self.close_connection = True
            return
        if hub.hold is not None and len(body) > LARGE:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            hub.halfway.set()
            hub.hold.wait()
            body = body[len(body) // 2 :]
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _sibling(name: str, data: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    told: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": blob}
    if len(data) > LARGE:
        told["lfs"] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 130}
    return told
