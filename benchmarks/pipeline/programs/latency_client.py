"""Sends events at a constant rate, reads the output of a job, and prints the latency of each event.

    python -m benchmarks.pipeline.programs.latency_client '{"bootstrap": …, "source": …, …}'

The fields of the object are the arguments of `main`.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

WARM_UP_S = 15.0
"""The first events, which are not counted: Spark compiles during them."""

SILENCE_S_MAX = 120.0


def main(bootstrap: str, source: str, target: str, events: int, rate: int) -> dict[str, float]:
    warmup = int(WARM_UP_S * rate)
    sending = threading.Thread(target=send, args=(bootstrap, source, warmup + events, rate), daemon=True)
    consumer = open_consumer(bootstrap, target)
    sending.start()
    took_ms = sorted(read(consumer, warmup + events)[warmup:])
    consumer.close()
    return {"p50": took_ms[len(took_ms) // 2], "p99": took_ms[len(took_ms) * 99 // 100]}


def send(bootstrap: str, topic: str, count: int, rate: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    started_s = time.perf_counter()
    for number in range(count):
        producer.poll(max(0.0, started_s + number / rate - time.perf_counter()))
        while time.perf_counter() < started_s + number / rate:
            time.sleep(0.0002)
        event = {"user": f"u{number % 100}", "url": str(time.perf_counter_ns()), "ms": number % 2000}
        producer.produce(topic, value=json.dumps(event))
    producer.flush()


def open_consumer(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "measures",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, timeout=SILENCE_S_MAX).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    return consumer


def read(consumer: Consumer, count: int) -> list[float]:
    """The latency of each event, in the order of arrival."""
    took_ms: list[float] = []
    last_s = time.perf_counter()
    while len(took_ms) < count:
        for message in consumer.consume(1000, timeout=0.001):
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise SystemExit(f"the consumer failed: {error}")
            if error is None:
                last_s = time.perf_counter()
                sent_ns = int(json.loads(message.value() or b"")["url"])
                took_ms.append((time.perf_counter_ns() - sent_ns) / 1e6)
        if time.perf_counter() - last_s > SILENCE_S_MAX:
            raise SystemExit(f"{len(took_ms)} of {count} events arrived, and then none for {SILENCE_S_MAX} s")
    return took_ms


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
