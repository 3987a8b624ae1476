"""Connections of one target. Each address is checked when it is dialled, so that a name that resolves to another
address later (DNS rebinding) gets no further than any other name.

A name is resolved in threads of the target: one that never resolves holds up no other target.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from headrace.webhooks.outgoing.addresses import AddressRules

RESOLVER_THREADS = 2
"""A second one, for the case that the first one waits for a name server that does not answer."""

NAME_CACHE_S = 10
"""New connections use the addresses of a name for so long. They are checked again, too."""

KEEP_ALIVE_S = 30
"""Shorter than what servers have, so that a request is seldom sent on a connection that is being closed."""

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
Lookup = Callable[..., Sequence[AddressInfo]]
"""`socket.getaddrinfo`."""


class AddressRejected(OSError):
    """A connection to this address is not allowed."""


class CheckedResolver(AbstractResolver):
    """The allowed addresses of a name."""

    def __init__(self, rules: AddressRules, *, lookup: Lookup = socket.getaddrinfo) -> None:
        self._rules = rules
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="webhook-resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: self._lookup(host, port, family=family, type=socket.SOCK_STREAM)
        )
        allowed: list[ResolveResult] = []
        problem = f"{host} has no address"
        for of_family, _type, protocol, _name, address in found:
            if rejected := self._rules.problem(str(address[0])):
                problem = rejected
                continue
            allowed.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=of_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        if not allowed:
            raise AddressRejected(problem)
        return allowed

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def checked_connector(
    rules: AddressRules,
    *,
    connections_max: int,
    tls: ssl.SSLContext,
    lookup: Lookup = socket.getaddrinfo,
) -> TCPConnector:
    """Connections of one target: `connections_max` at a time, to allowed addresses only."""

    def checked_socket(address: AddressInfo) -> socket.socket:
        """aiohttp connects the socket to exactly this address. An address in a URL comes here without a resolver."""
        family, kind, protocol, _name, place = address
        if problem := rules.problem(str(place[0])):
            raise AddressRejected(problem)
        return socket.socket(family, kind, protocol)

    return TCPConnector(
        limit=connections_max,
        resolver=CheckedResolver(rules, lookup=lookup),
        socket_factory=checked_socket,
        ttl_dns_cache=NAME_CACHE_S,
        keepalive_timeout=KEEP_ALIVE_S,
        ssl=tls,
    )
