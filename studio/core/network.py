"""Watching whom this process speaks with, so that a self-test can say: with nobody."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any


@contextmanager
def watched_network() -> Iterator[list[str]]:
    """Collects the addresses outside this machine that this process speaks with: there must be none."""
    seen: list[str] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("socket.connect", "socket.sendto"):
            address = arguments[1]
            if isinstance(address, tuple) and not _is_here(str(address[0])):
                seen.append(str(address[0]))
        elif watching and event == "socket.getaddrinfo" and not _is_here(str(arguments[0])):
            seen.append(str(arguments[0]))

    sys.addaudithook(hook)
    try:
        yield seen
    finally:
        # An audit hook can't be taken away.
        watching = False


def _is_here(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in ("localhost", "", "None")
