"""Addresses of ZeroMQ and nng: tcp://HOST:PORT and ipc://PATH."""

from __future__ import annotations

from headrace.edges.addresses import require_loopback
from headrace.edges.errors import BadEdge
from headrace.kafka.settings import parse_address

_TCP = "tcp://"
_IPC = "ipc://"


def check_connect(url: str) -> str:
    """An address to connect to: the user trusts what it sends."""
    if url.startswith(_TCP):
        parse_address(url.removeprefix(_TCP))
    elif not url.startswith(_IPC) or url == _IPC:
        raise BadEdge(f"{url!r} is not an address", hint="write tcp://HOST:PORT, or ipc://PATH")
    return url


def check_bind(url: str, *, is_open: bool) -> str:
    """An address to listen on. `is_open` allows one that other machines reach: subscribers do not authenticate."""
    check_connect(url)
    if url.startswith(_TCP) and not is_open:
        host, _port = parse_address(url.removeprefix(_TCP))
        require_loopback(host, "read the events")
    return url
