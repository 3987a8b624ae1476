"""Follow a topic in an event loop, with the broker in the same loop.

python examples/follow_asyncio.py
"""

from __future__ import annotations

import asyncio

from confluent_kafka.aio import AIOConsumer, AIOProducer

from headrace import Broker

TOPIC = "temperatures"
READINGS = [20.5, 20.7, 21.4, 22.0, 21.8]


async def measure(bootstrap: str) -> None:
    """Write a reading every tenth of a second."""
    producer = AIOProducer({"bootstrap.servers": bootstrap})
    for celsius in READINGS:
        await producer.produce(TOPIC, key=b"kitchen", value=str(celsius).encode())
        await producer.flush()
        await asyncio.sleep(0.1)
    await producer.close()


async def follow(bootstrap: str) -> None:
    """Print each reading as it arrives: the fetch waits in the broker until there is one."""
    consumer = AIOConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "display", "auto.offset.reset": "earliest"}
    )
    await consumer.subscribe([TOPIC])
    for _ in READINGS:
        message = await consumer.poll(30)
        assert message is not None, "nothing came for half a minute"
        print(f"{message.key().decode()}: {message.value().decode()} °C", flush=True)
    await consumer.close()


async def main() -> None:
    async with Broker(durability="os") as broker:
        await asyncio.gather(measure(broker.bootstrap), follow(broker.bootstrap))


if __name__ == "__main__":
    asyncio.run(main())
