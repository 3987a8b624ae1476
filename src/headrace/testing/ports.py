"""Free ports for servers whose port must be set before they start."""

from __future__ import annotations

import contextlib
import random
import socket

FIRST, LAST = 20_000, 32_000
"""Below the ports of outgoing connections: one of these could take the port before the server does."""


def free_ports(count: int) -> list[int]:
    """Different ports that are free at the moment. All sockets stay open until the last port is found."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in random.SystemRandom().sample(range(FIRST, LAST), LAST - FIRST):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    assert len(found) == count, "no port is free"
    return found


def free_port() -> int:
    return free_ports(1)[0]
