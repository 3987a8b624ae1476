"""A consumer is slower than the producer: keep the records on disk, keep only the newest, or slow the producer down.

python examples/overload.py

In all three cases the memory of the broker is bounded, and every lost record is counted.
"""

from __future__ import annotations

import time
import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker

RECORDS = 5_000
VALUE = b"x" * 1000
GIVE_UP_S = 30


def write(bootstrap: str, topic: str, **config: object) -> tuple[int, int]:
    """How many records were stored, and how often the producer had to wait because its own queue was full."""
    stored = waits = 0

    def on_delivery(error: object, _message: object) -> None:
        nonlocal stored
        stored += error is None

    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for _ in range(RECORDS):
        while True:
            try:
                producer.produce(topic, value=VALUE, on_delivery=on_delivery)
                break
            except BufferError:
                waits += 1
                producer.poll(0.1)
    producer.flush()
    return stored, waits


def read_some(bootstrap: str, topic: str, count: int) -> list[int]:
    """The offsets of the next records of one consumer group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "slow", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    offsets = [message.offset() for message in consumer.consume(count, timeout=30)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return offsets


def create_topic(bootstrap: str, topic: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(GIVE_UP_S)


def metric(broker: Broker, name: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    return int(sum(float(line.split()[-1]) for line in lines if line.startswith(name)))


def buffer_on_disk(broker: Broker) -> None:
    write(broker.bootstrap, "buffered")
    first = read_some(broker.bootstrap, "buffered", 100)
    print(f"buffer: {RECORDS} written, the slow consumer is at {first[-1] + 1}; the rest waits on disk")


def keep_the_newest(broker: Broker) -> None:
    create_topic(broker.bootstrap, "ring", {"segment.bytes": "200000", "retention.bytes": "1000000"})
    write(broker.bootstrap, "ring")
    before = read_some(broker.bootstrap, "ring", 100)
    write(broker.bootstrap, "ring")
    wait_for_retention(broker.bootstrap, beyond=before[-1])
    after = read_some(broker.bootstrap, "ring", 100)
    print(
        f"drop:   the ring buffer moved on from {before[-1] + 1} to {after[0]}; "
        f"the broker counted {metric(broker, 'headrace_missed_records_total')} missed records"
    )


def wait_for_retention(bootstrap: str, *, beyond: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look"})
    deadline_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < deadline_s:
        start, _end = consumer.get_watermark_offsets(TopicPartition("ring", 0), timeout=GIVE_UP_S)
        if start > beyond + 1:
            break
        time.sleep(0.1)
    consumer.close()


def push_back(broker: Broker) -> None:
    # A producer that buffers at most 100 records, and sends small batches as fast as it can.
    stored, waits = write(
        broker.bootstrap,
        "pushed",
        **{"queue.buffering.max.messages": 100, "batch.num.messages": 10, "linger.ms": 0},
    )
    print(
        f"push back: {stored} of {RECORDS} stored; the producer waited {waits} times, "
        f"the broker stopped reading from it {metric(broker, 'headrace_pauses_total')} times"
    )


def main() -> None:
    # A connection may have two requests in flight; above that the broker does not read from it.
    with Broker(metrics_port=0, housekeeping_interval_ms=200, connection_requests_max=2) as broker:
        buffer_on_disk(broker)
        keep_the_newest(broker)
        push_back(broker)


if __name__ == "__main__":
    main()
