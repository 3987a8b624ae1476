"""Replay a log: from an offset, from a time, and with a whole group after a bug fix.

python examples/replay.py
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker

TOPIC = "orders"
MINUTE_MS = 60_000
# Five orders, a minute apart, the last one a minute ago. The producer sets the timestamps.
NOW_MS = int(time.time() * 1000)
ORDERS = [(NOW_MS - (5 - number) * MINUTE_MS, f"order {number}") for number in range(5)]


def consumer_of(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def write(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for timestamp_ms, order in ORDERS:
        producer.produce(TOPIC, value=order, timestamp=timestamp_ms)
    producer.flush()


def read_from_offset(bootstrap: str, offset: int) -> list[str]:
    consumer = consumer_of(bootstrap, "by-offset")
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    values = [message.value().decode() for message in consumer.consume(len(ORDERS) - offset, timeout=30)]
    consumer.close()
    return values


def read_from_time(bootstrap: str, timestamp_ms: int) -> list[str]:
    consumer = consumer_of(bootstrap, "by-time")
    # For a time this returns the offset of the first record at this time or later.
    (found,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, timestamp_ms)], timeout=30)
    consumer.close()
    return read_from_offset(bootstrap, found.offset)


def read_in_group(bootstrap: str, count: int) -> list[str]:
    consumer = consumer_of(bootstrap, "billing")
    consumer.subscribe([TOPIC])
    values = [message.value().decode() for message in consumer.consume(count, timeout=30)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def move_group(bootstrap: str, offset: int) -> None:
    """What `headrace group seek billing --topic orders --to-offset N` does; the group must have no members."""
    consumer = consumer_of(bootstrap, "billing")
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def main() -> None:
    with Broker() as broker:
        write(broker.bootstrap)
        print("from offset 3:      ", read_from_offset(broker.bootstrap, 3))
        print("the last 3 minutes: ", read_from_time(broker.bootstrap, NOW_MS - 3 * MINUTE_MS))
        print("billing reads three:", read_in_group(broker.bootstrap, 3))
        print("and the rest:       ", read_in_group(broker.bootstrap, 2))
        move_group(broker.bootstrap, 1)
        print("moved back to 1:    ", read_in_group(broker.bootstrap, 4))


if __name__ == "__main__":
    main()
