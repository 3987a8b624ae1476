"""Ports for servers that must be told theirs before they start."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different: the sockets are held until the last one is found."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in taken]


def free_port() -> int:
    return free_ports(1)[0]
