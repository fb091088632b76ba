"""A stand-in for a package index on this machine: a folder's lists are the pages that pip reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Index:
    """Where it is and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        """What pip takes as ``--index-url``."""
        self.asked: list[str] = []
        """Paths, in their order."""

    def environment(self) -> dict[str, str]:
        """Variables that let pip ask this index and know of no other."""
        return {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": self.url, "PIP_FIND_LINKS": ""}


@contextmanager
def serving(folder: Path) -> Iterator[Index]:
    """``folder`` on 127.0.0.1; it holds a folder for each package, named after it, with its wheels."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:
            index.asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    index = Index(f"http://127.0.0.1:{server.server_port}/")
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
