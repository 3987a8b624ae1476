"""Connections go to checked addresses only, also if a name changes its address between two of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from headrace.webhooks.outgoing.addresses import AddressRules
from headrace.webhooks.outgoing.dialling import (
    AddressInfo,
    AddressRejected,
    CheckedResolver,
    Lookup,
    checked_connector,
)
from tests.webhooks.outgoing.certificates import server_context
from tests.webhooks.outgoing.conftest import Receiver

OWN = AddressRules(allow_inside=True)
PUBLIC = "8.8.8.8"


class Names:
    """A resolver whose answers are set; it counts how often it was asked."""

    def __init__(self, *answers: Sequence[str], port: int | None = None) -> None:
        self._answers = [*answers]
        self.asked = 0

    def lookup(self, host: str, port: int, **_options: Any) -> list[AddressInfo]:
        addresses = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in addresses
        ]


@contextlib.asynccontextmanager
async def session(
    rules: AddressRules, lookup: Lookup = socket.getaddrinfo, tls: ssl.SSLContext | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    connector = checked_connector(
        rules, connections_max=2, tls=tls or ssl.create_default_context(), lookup=lookup
    )
    async with aiohttp.ClientSession(connector=connector) as opened:
        yield opened


async def resolved(rules: AddressRules, *addresses: str) -> list[str]:
    resolver = CheckedResolver(rules, lookup=Names(addresses).lookup)
    try:
        return [each["host"] for each in await resolver.resolve("shop.example", 443)]
    finally:
        await resolver.close()


def test_resolver_returns_the_allowed_addresses_only() -> None:
    found = asyncio.run(resolved(AddressRules(), "10.0.0.1", PUBLIC, "::1", "2606:4700::1"))
    assert found == [PUBLIC, "2606:4700::1"]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0", "fe80::1%1"]
)
def test_name_with_only_inside_addresses_is_rejected(address: str) -> None:
    with pytest.raises(AddressRejected, match="is inside"):
        asyncio.run(resolved(AddressRules(), address))


def test_name_without_an_address_is_an_error() -> None:
    with pytest.raises(AddressRejected, match=r"shop\.example has no address"):
        asyncio.run(resolved(AddressRules()))


def test_connection_goes_to_the_address_that_was_checked(receiver: Receiver) -> None:
    """The name is resolved once: what another look-up would find is not dialled."""
    names = Names(["127.0.0.1"], ["127.0.0.2"])

    async def peer() -> Any:
        async with (
            session(OWN, names.lookup) as opened,
            opened.post(f"http://shop.example:{receiver.port}/hook") as response,
        ):
            assert response.connection is not None
            assert response.connection.transport is not None
            return response.connection.transport.get_extra_info("peername")

    async def large(_request: web.Request, _body: bytes) -> web.StreamResponse:
        return web.Response(body=bytes(1_000_000))  # the connection is still there when the head has come

    receiver.answers["/hook"] = large
    assert asyncio.run(peer())[:2] == ("127.0.0.1", receiver.port)
    assert names.asked == 1
    assert receiver.received()[0].headers["host"] == f"shop.example:{receiver.port}"


def test_name_that_is_rebound_to_an_inside_address_is_rejected(receiver: Receiver) -> None:
    names = Names([PUBLIC], ["127.0.0.1"])

    async def post_twice() -> None:
        resolver = CheckedResolver(AddressRules(), lookup=names.lookup)
        assert [each["host"] for each in await resolver.resolve("shop.example")] == [PUBLIC]
        await resolver.close()
        async with session(AddressRules(), names.lookup) as opened:
            with pytest.raises(aiohttp.ClientConnectorError) as caught:
                await opened.post(f"http://shop.example:{receiver.port}/hook")
            assert isinstance(caught.value.os_error, AddressRejected)

    asyncio.run(post_twice())
    assert receiver.received() == []


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_literal_address_is_checked_when_it_is_dialled(host: str, receiver: Receiver) -> None:
    """It never comes to a resolver."""

    async def post() -> None:
        async with session(AddressRules()) as opened:
            with pytest.raises(aiohttp.ClientConnectorError) as caught:
                await opened.post(f"http://{host}:{receiver.port}/hook")
            assert isinstance(caught.value.os_error, AddressRejected)

    asyncio.run(post())
    assert receiver.received() == []


@pytest.mark.parametrize("host", ["localhost", "2130706433", "127.1", "0x7f000001"])
def test_name_that_the_system_resolves_to_loopback_is_rejected(host: str, receiver: Receiver) -> None:
    async def post() -> None:
        async with session(AddressRules()) as opened:
            with pytest.raises((aiohttp.ClientConnectorError, aiohttp.InvalidURL)):
                await opened.post(f"http://{host}:{receiver.port}/hook")

    asyncio.run(post())
    assert receiver.received() == []


def test_certificate_is_checked_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    server_tls, chain = server_context("shop.example", tmp_path)
    client_tls = ssl.create_default_context(cafile=chain)
    names: list[str | None] = []
    server_tls.sni_callback = lambda _socket, name, _context: names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls)
        port = server.sockets[0].getsockname()[1]
        lookup = Names(["127.0.0.1"]).lookup
        async with server, session(OWN, lookup, client_tls) as opened:
            async with opened.post(f"https://shop.example:{port}/") as response:
                assert response.status == 204
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await opened.post(f"https://other.example:{port}/")

    asyncio.run(run())
    assert names == ["shop.example", "other.example"]


def test_name_that_never_resolves_holds_up_no_other_target() -> None:
    """Each target has threads of its own for names."""

    async def run() -> None:
        never = threading.Event()

        def hang(*_arguments: Any, **_options: Any) -> list[AddressInfo]:
            never.wait(60)
            return []

        stuck = [CheckedResolver(AddressRules(), lookup=hang) for _ in range(20)]
        waiting = [asyncio.create_task(each.resolve("hang.example")) for each in stuck for _ in range(4)]
        other = CheckedResolver(AddressRules(), lookup=Names([PUBLIC]).lookup)
        assert (await other.resolve("shop.example"))[0]["host"] == PUBLIC
        never.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        for each in (*stuck, other):
            await each.close()

    asyncio.run(run())
