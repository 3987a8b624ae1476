"""Opens many streams on one topic, and waits until each has got an event: what one costs the server in memory."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer

from benchmarks.edges.bench import TOPIC
from benchmarks.processes import resident_mb

AT_A_TIME = 50
WARM = 50
"""Streams that are open before the first measurement, so that what all share is not counted."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def subscribe(port: int) -> Stream:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_096)
    writer.write(f"GET /topics/{TOPIC}/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    return reader, writer


async def subscribe_all(port: int, count: int) -> list[Stream]:
    found: list[Stream] = []
    while len(found) < count:
        wanted = min(AT_A_TIME, count - len(found))
        found += await asyncio.gather(*(subscribe(port) for _ in range(wanted)))
    return found


async def receive(streams: list[Stream], bootstrap: str) -> None:
    """Every stream gets the same event."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPIC, b'{"user": "ann"}')
    await asyncio.to_thread(producer.flush, 30)
    for reader, _ in streams:
        await reader.readuntil(b"data: ")
        await reader.readuntil(b"\n\n")


async def run(arguments: dict[str, Any]) -> dict[str, float]:
    port, pid, bootstrap = urlsplit(arguments["url"]).port or 0, arguments["pid"], arguments["bootstrap"]
    streams = await subscribe_all(port, WARM)
    await receive(streams, bootstrap)
    before_mb = resident_mb(pid)
    streams += await subscribe_all(port, arguments["subscribers"])
    await receive(streams, bootstrap)
    return {"kb": (resident_mb(pid) - before_mb) * 1_000 / arguments["subscribers"]}


if __name__ == "__main__":
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(asyncio.run(run(json.loads(sys.argv[1])))))
