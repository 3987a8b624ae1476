"""Five thousand subscribers of one topic, whose gateway is killed: each gets every record once.

`make bench-edges` measures what they cost.
"""

from __future__ import annotations

import asyncio
import json
import resource
import uuid

import pytest
from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from tests.compatibility.gateway_process import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SUBSCRIBERS = 5_000
OPENING_MAX = 100
PART = 20
"""Records before the gateway is killed, while it is away, and after that."""

RETRY_S = 0.1


class Subscriber:
    """A client that reconnects with the id of its last event, as browsers do."""

    def __init__(self, port: int, topic: str, places: asyncio.Semaphore) -> None:
        self._port, self._topic, self._places = port, topic, places
        self._id = ""
        self.seen: list[int] = []
        self.is_open = False

    async def follow(self, count: int) -> None:
        while len(self.seen) < count:
            try:
                await self._follow_once(count)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.is_open = False
                await asyncio.sleep(RETRY_S)

    async def _follow_once(self, count: int) -> None:
        async with self._places:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=65_536)
            resume = f"Last-Event-ID: {self._id}\r\n" if self._id else ""
            writer.write(
                f"GET /topics/{self._topic}/stream?from=earliest HTTP/1.1\r\nHost: 127.0.0.1\r\n{resume}\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
        self.is_open = True
        try:
            while len(self.seen) < count:
                line = await reader.readuntil(b"\n")
                if line.startswith(b"id: "):
                    id = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    self.seen.append(json.loads(line[6:])["value"])
                    self._id = id
        finally:
            writer.close()


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"subscribers-{uuid.uuid4().hex[:12]}"
    Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=1)
    return name


async def scenario(gateway: GatewayProcess, producer: Producer, topic: str) -> list[list[int]]:
    def write(first: int) -> None:
        for number in range(first, first + PART):
            producer.produce(topic, str(number))
        assert producer.flush(30) == 0

    places = asyncio.Semaphore(OPENING_MAX)
    subscribers = [Subscriber(gateway.port, topic, places) for _ in range(SUBSCRIBERS)]
    following = asyncio.gather(*(each.follow(3 * PART) for each in subscribers))
    while not all(each.is_open for each in subscribers):
        await asyncio.sleep(0.1)
        assert not following.done()
    await asyncio.to_thread(write, 0)
    while sum(len(each.seen) > 0 for each in subscribers) < SUBSCRIBERS // 2:
        await asyncio.sleep(0.01)
        assert not following.done()
    gateway.kill()
    await asyncio.to_thread(write, PART)
    await asyncio.to_thread(gateway.start)
    await asyncio.to_thread(write, 2 * PART)
    await following
    return [each.seen for each in subscribers]


def test_each_of_five_thousand_subscribers_gets_every_record_once(bootstrap: str, topic: str) -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < SUBSCRIBERS + 1_000:
        pytest.skip(f"a process may open only {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    with GatewayProcess(bootstrap) as gateway:
        seen = asyncio.run(scenario(gateway, producer, topic))
    assert len(seen) == SUBSCRIBERS
    assert {tuple(each) for each in seen} == {tuple(range(3 * PART))}
