"""Receives webhooks that `headrace webhook out run` delivers: how many per second, maybe beside a target that hangs."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import uvloop
from confluent_kafka import Producer

from benchmarks.edges.bench import TOPIC
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.secrets import Secret, generate_secret

KEYS = 1_000
STOP_S_MAX = 60
WAIT_S_MAX = 600
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Received:
    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self.count = 0
        self.first_s = 0.0
        self.last_s = 0.0
        self.is_complete = asyncio.Event()

    def add(self) -> None:
        self.last_s = time.perf_counter()
        if self.count == 0:
            self.first_s = self.last_s
        self.count += 1
        if self.count == self._wanted:
            self.is_complete.set()

    @property
    def per_s(self) -> float:
        return (self.count - 1) / (self.last_s - self.first_s)


class Receiver(asyncio.Protocol):
    """The least that answers a request: the receiver should not be what is measured."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of another class

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._received.add()
            self._transport.write(ANSWER)


def write_records(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": count + 1})
    for number in range(count):
        value = b'{"order": %d, "amount": 120, "item": "book", "city": "Oslo"}' % number
        producer.produce(TOPIC, value, b"%d" % (number % KEYS))
    assert producer.flush(WAIT_S_MAX) == 0


def add_target(folder: Path, name: str, port: int) -> None:
    target = Target(
        name=name,
        topic=TOPIC,
        url=f"http://127.0.0.1:{port}/hook",
        filter="amount > 100",
        secrets=(Secret(text=generate_secret()),),
        allow_inside=True,
    )
    Catalog(folder, "out", Target).add(target)


async def run(arguments: dict[str, Any]) -> dict[str, float]:
    folder, count = Path(arguments["folder"]), arguments["deliveries"]
    write_records(arguments["bootstrap"], count)
    loop = asyncio.get_running_loop()
    received = Received(count)
    server = await loop.create_server(lambda: Receiver(received), "127.0.0.1", 0)
    hanging = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    add_target(folder, "works", server.sockets[0].getsockname()[1])
    if arguments["beside_dead"]:
        add_target(folder, "hangs", hanging.sockets[0].getsockname()[1])
    command = [sys.executable, "-m", "headrace", "webhook", "out", "run", "--data-dir", str(folder)]
    command += ["--bootstrap", arguments["bootstrap"]]
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=nowhere, stderr=nowhere)
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            await received.is_complete.wait()
    finally:
        process.terminate()
        async with asyncio.timeout(STOP_S_MAX):
            await process.wait()
    return {"per_s": received.per_s}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(json.loads(sys.argv[1])))))
