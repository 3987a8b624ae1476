from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi import Request

from headrace.gateway.bodies import Bodies
from headrace.gateway.errors import BadRequest, BodyTooLarge, BodyTooSlow, GatewayError, Overloaded
from headrace.gateway.settings import GatewaySettings


def request(parts: Sequence[bytes | None], *, length: int | None = None, ends: bool = True) -> Request:
    """None is a client that disconnects; without an end, the client sends nothing more."""
    left = [*parts]

    async def receive() -> dict[str, Any]:
        if not left:
            if ends:
                return {"type": "http.request", "body": b"", "more_body": False}
            await asyncio.sleep(3600)
        part = left.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": True}

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    return Request({"type": "http", "headers": headers}, receive)


def read(bodies: Bodies, *requests: Request) -> list[bytes]:
    """All at the same time."""

    async def one(each: Request) -> bytes:
        async with bodies.body(each) as body:
            assert bodies.bytes >= len(body)
            await asyncio.sleep(0)
            return body

    async def all() -> list[bytes]:
        return await asyncio.gather(*map(one, requests))

    return asyncio.run(all())


@pytest.fixture
def bodies() -> Bodies:
    return Bodies(GatewaySettings(body_bytes_max=10, bodies_bytes_max=15, body_ms_max=50))


def test_body_is_read_whole_and_counts_until_it_is_left(bodies: Bodies) -> None:
    assert read(bodies, request([b"12345", b"67890"])) == [b"1234567890"]
    assert bodies.bytes == 0


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (request([b"1"], length=11, ends=False), BodyTooLarge),
        (request([b"123456", b"123456"], ends=False), BodyTooLarge),
        (request([b"1"], ends=False), BodyTooSlow),
        (request([b"1", None]), BadRequest),
    ],
)
def test_body_out_of_bounds_is_rejected_and_leaves_nothing(
    bodies: Bodies, wrong: Request, kind: type[GatewayError]
) -> None:
    with pytest.raises(kind):
        read(bodies, wrong)
    assert bodies.bytes == 0


def test_bodies_together_are_bounded(bodies: Bodies) -> None:
    with pytest.raises(Overloaded):
        read(bodies, request([b"x" * 8]), request([b"x" * 8]))
    assert read(bodies, request([b"x" * 8]), request([b"x" * 7])) == [b"x" * 8, b"x" * 7]


def test_body_may_have_a_bound_of_its_own_below_that_of_the_gateway(bodies: Bodies) -> None:
    async def read_with(bytes_max: int, part: bytes) -> bytes:
        async with bodies.body(request([part]), bytes_max=bytes_max) as body:
            return body

    assert asyncio.run(read_with(3, b"123")) == b"123"
    for bytes_max, part in ((3, b"1234"), (100, b"x" * 11)):
        with pytest.raises(BodyTooLarge):
            asyncio.run(read_with(bytes_max, part))
    assert bodies.bytes == 0
