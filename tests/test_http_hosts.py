from __future__ import annotations

import asyncio

import pytest
from fastapi import FastAPI, Response
from starlette.types import Message, Receive, Scope, Send

from headrace.http_hosts import ServedHosts
from tests.asgi_client import AsgiClient


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def found() -> str:
        return "found"

    return app


def client(app: FastAPI, hosts: frozenset[str] | None) -> AsgiClient:
    app.add_middleware(ServedHosts, hosts=hosts, rejection=lambda error: Response(error.message, 403))
    return AsgiClient(app)


def test_name_of_another_host_is_rejected(app: FastAPI) -> None:
    local = client(app, frozenset({"localhost"}))
    assert local.get("/").status_code == 200
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", ""):
        rejected = local.get("/", headers={"Host": host})
        assert (rejected.status_code, rejected.text) == (403, "the header Host is not served")


def test_websocket_with_the_name_of_another_host_is_rejected() -> None:
    accepted = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        accepted.append(scope)

    sent: list[Message] = []

    async def connect(host: bytes) -> None:
        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        hosts = ServedHosts(
            app, hosts=frozenset({"localhost"}), rejection=lambda error: Response(error.message, 403)
        )
        await hosts({"type": "websocket", "path": "/", "headers": [(b"host", host)]}, receive, send)

    asyncio.run(connect(b"localhost"))
    assert (len(accepted), sent) == (1, [])
    asyncio.run(connect(b"evil.example"))
    assert (len(accepted), sent[0]["status"]) == (1, 403)


def test_every_name_is_served_without_a_list(app: FastAPI) -> None:
    assert client(app, None).get("/", headers={"Host": "proxy.example"}).status_code == 200
