"""Speaking with another machine is noticed, speaking with oneself is not."""

import socket
from contextlib import suppress

from studio.core.network import watched_network


def test_only_other_machines_are_noted() -> None:
    with watched_network() as seen:
        with socket.socket() as here:
            here.bind(("127.0.0.1", 0))
            here.listen()
            with socket.create_connection(here.getsockname()):
                pass
        assert seen == []
        # An address for documentation, which nobody has; the packet is never answered.
        with socket.socket(type=socket.SOCK_DGRAM) as there, suppress(OSError):
            there.connect(("192.0.2.1", 9))
    assert seen == ["192.0.2.1"]
    with socket.socket(type=socket.SOCK_DGRAM) as there, suppress(OSError):
        there.connect(("192.0.2.2", 9))
    assert seen == ["192.0.2.1"], "it watches no longer"
