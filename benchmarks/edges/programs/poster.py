"""Posts batches of 100 events on a few connections, as fast as they are acknowledged. It does as little as possible
itself, because it shares the machine with the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from benchmarks.edges.bench import TOPIC

CONNECTIONS = 8
EVENTS_PER_REQUEST = 100


def request(port: int, *, as_rest_proxy: bool) -> bytes:
    events: list[dict[str, Any]] = [
        {"user": f"user-{each}", "page": "/shop", "amount": each, "city": "Oslo", "agent": "x" * 60}
        for each in range(EVENTS_PER_REQUEST)
    ]
    if as_rest_proxy:
        content_type = "application/vnd.kafka.json.v2+json"
        body = json.dumps({"records": [{"value": each} for each in events]}).encode()
    else:
        content_type, body = "application/json", json.dumps(events).encode()
    head = (
        f"POST /topics/{TOPIC} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def post(port: int, content: bytes, count: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        assert body.count(b'"offset"') == EVENTS_PER_REQUEST
    writer.close()


async def run(arguments: dict[str, Any]) -> float:
    port = urlsplit(arguments["url"]).port or 0
    content = request(port, as_rest_proxy=arguments["as_rest_proxy"])
    started_s = time.perf_counter()
    count: int = arguments["requests"] // CONNECTIONS + 1
    await asyncio.gather(*(post(port, content, count) for _ in range(CONNECTIONS)))
    return count * CONNECTIONS * EVENTS_PER_REQUEST / (time.perf_counter() - started_s)


if __name__ == "__main__":
    print(json.dumps({"events_per_s": asyncio.run(run(json.loads(sys.argv[1])))}))
