"""The addresses that edges listen on: loopback, unless the user allows others."""

from __future__ import annotations

import socket

from headrace.edges.errors import BadEdge
from headrace.kafka.settings import parse_address
from headrace.loopback import is_loopback


def bind(listen: str, kind: socket.SocketKind, *, is_open: bool) -> socket.socket:
    """A bound socket. `is_open` allows an address that other machines reach: senders do not authenticate."""
    host, port = parse_address(listen)
    if not is_open:
        require_loopback(host, "write events")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    try:
        if kind is socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise BadEdge(
            f"can't listen on {listen}: {error.strerror}", hint="choose another address with --listen"
        ) from error
    return bound


def require_loopback(host: str, danger: str) -> None:
    """BadEdge if other machines reach the host."""
    if not is_loopback(host):
        raise BadEdge(
            f"{host} is not a loopback address: every machine that reaches it could {danger}",
            hint="listen on 127.0.0.1, or allow it with --insecure",
        )


def address_of(bound: socket.socket) -> str:
    """HOST:PORT of a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
