"""Ports for servers that must be told theirs before they start."""

from __future__ import annotations

import contextlib
import random
import socket

FIRST, LAST = 20_000, 32_000
"""Below those that systems give to outgoing connections: one of them could take the port before its server does."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different: the sockets are held until the last one is found."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in random.SystemRandom().sample(range(FIRST, LAST), LAST - FIRST):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    assert len(found) == count, "there is no free port"
    return found


def free_port() -> int:
    return free_ports(1)[0]
