"""A queue in an event loop: a producer, and a worker with up to fifty requests at a time, in one thread.

python examples/queue_asyncio.py
"""

from __future__ import annotations

import asyncio

from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.queue import AsyncMessage, AsyncQueue

PAGES = 200


async def produce(bootstrap: str) -> None:
    async with AsyncQueue("pages", bootstrap=bootstrap) as queue:
        places = await asyncio.gather(*(queue.put(f"/page/{number}") for number in range(PAGES)))
    print(f"{len(places)} pages are stored, the last one as {places[-1]}")


async def crawl(bootstrap: str) -> None:
    fetched: set[bytes] = set()
    at_once = most_at_once = 0

    async def fetch(message: AsyncMessage) -> None:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        await asyncio.sleep(0.01)  # a request to a web server
        at_once -= 1
        fetched.add(message.value)
        if len(fetched) == PAGES:
            queue.stop()

    queue = AsyncQueue("pages", group="crawlers", bootstrap=bootstrap)
    await queue.run(fetch, concurrency=50)
    print(f"{len(fetched)} pages are fetched, up to {most_at_once} at a time")


async def main() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("pages", 1)])["pages"].result(30)
        await produce(broker.bootstrap)
        await crawl(broker.bootstrap)


if __name__ == "__main__":
    asyncio.run(main())
