"""Load by confluent-kafka, in its own process, so that only it and the broker share the machine.

    python -m benchmarks.broker.confluent_client produce BOOTSTRAP TOPIC RECORDS RECORD_BYTES [name=value ...]

It prints its figures as one JSON object. All other settings are librdkafka's defaults.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

FLUSH_TIMEOUT_S = 300
SILENCE_TIMEOUT_S = 30
CONSUME_BATCH_RECORDS = 10_000
PING_WARMUP_RECORDS = 200

PRODUCER_SETTINGS = {
    "acks": "all",
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    # Only failed records are reported: a call for each successful one would measure Python, not the broker.
    "delivery.report.only.error": True,
}


def produce(
    bootstrap: str, topic: str, records: int, record_bytes: int, extra: dict[str, Any]
) -> dict[str, float]:
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    settings = {"bootstrap.servers": bootstrap, "on_delivery": on_delivery, **PRODUCER_SETTINGS, **extra}
    producer = Producer(settings)
    producer.list_topics(topic, timeout=SILENCE_TIMEOUT_S)  # connect before the time starts
    value = b"x" * record_bytes
    send = producer.produce
    started_s = time.perf_counter()
    for _ in range(records):
        try:
            send(topic, value)
        except BufferError:
            _send_when_there_is_room(producer, topic, value)
    left = producer.flush(FLUSH_TIMEOUT_S)
    took_s = time.perf_counter() - started_s
    if left or failed:
        raise SystemExit(f"{left} records were not sent in time, {len(failed)} failed: {failed[:1]}")
    return {"records_per_s": records / took_s}


def _send_when_there_is_room(producer: Producer, topic: str, value: bytes) -> None:
    deadline_s = time.monotonic() + SILENCE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        producer.poll(0.01)
        try:
            producer.produce(topic, value)
        except BufferError:
            continue
        return
    raise SystemExit(f"the broker acknowledged nothing for {SILENCE_TIMEOUT_S} s")


def consume(
    bootstrap: str, topic: str, records: int, _record_bytes: int, extra: dict[str, Any]
) -> dict[str, float]:
    """Read from the beginning without a group, so that only fetching is measured."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            # By default the client pauses for a second when its queue is full: the faster the broker, the more pauses.
            "fetch.queue.backoff.ms": 1,
            **extra,
        }
    )
    consumer.list_topics(topic, timeout=SILENCE_TIMEOUT_S)
    started_s = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen = 0
    while seen < records:
        messages = consumer.consume(CONSUME_BATCH_RECORDS, timeout=SILENCE_TIMEOUT_S)
        if not messages:
            raise SystemExit(f"no record arrived for {SILENCE_TIMEOUT_S} s after {seen} records")
        if (error := messages[0].error()) is not None:
            raise SystemExit(f"consuming failed: {error}")
        seen += len(messages)
    took_s = time.perf_counter() - started_s
    consumer.close()
    return {"records_per_s": seen / took_s}


def ping(
    bootstrap: str, topic: str, records: int, record_bytes: int, extra: dict[str, Any]
) -> dict[str, float]:
    """One record at a time, from the call of `produce` until the consumer has it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "socket.nagle.disable": True, **extra}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    consumer.poll(1.0)  # the consumer is at the end, and a fetch waits at the broker
    value = b"x" * record_bytes
    latencies_ms = []
    for _ in range(PING_WARMUP_RECORDS + records):
        started_s = time.perf_counter()
        producer.produce(topic, value)
        producer.poll(0)
        message = consumer.poll(SILENCE_TIMEOUT_S)
        latencies_ms.append((time.perf_counter() - started_s) * 1000)
        if message is None or message.error():
            raise SystemExit(f"a record was not delivered: {message and message.error()}")
    producer.flush(FLUSH_TIMEOUT_S)
    consumer.close()
    measured = sorted(latencies_ms[PING_WARMUP_RECORDS:])
    return {"p50_ms": measured[len(measured) // 2], "p99_ms": measured[int(len(measured) * 0.99)]}


WORK = {"produce": produce, "consume": consume, "ping": ping}


def main() -> None:
    work, bootstrap, topic, records, record_bytes, *pairs = sys.argv[1:]
    extra = dict(pair.split("=", 1) for pair in pairs)
    print(json.dumps(WORK[work](bootstrap, topic, int(records), int(record_bytes), extra)))


if __name__ == "__main__":
    main()
