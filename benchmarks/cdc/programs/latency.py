"""Commits rows at a constant rate, each with its time, and reads them from the topic. Milliseconds, p50 and p99."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from benchmarks.cdc.followers import NAME

TOPIC = f"{NAME}.public.ticks"
WARM_UP_S = 5.0
"""The first rows, which are not counted: Java compiles during them."""
SILENCE_S_MAX = 120.0


def insert(connection: psycopg.Connection[tuple[Any, ...]], count: int, rate: int) -> None:
    started_s = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, started_s + number / rate - time.perf_counter()))
        connection.execute("INSERT INTO ticks (at) VALUES (%s)", [time.perf_counter_ns()])


def opened(bootstrap: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "measures",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "enable.auto.commit": False,
        }
    )
    deadline_s = time.monotonic() + SILENCE_S_MAX
    while TOPIC not in consumer.list_topics(timeout=10).topics:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"there is no topic {TOPIC}")
        time.sleep(0.1)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    return consumer


def read(consumer: Consumer, count: int) -> list[float]:
    """The latency of each row, in the order of arrival."""
    took_ms: list[float] = []
    last_s = time.perf_counter()
    while len(took_ms) < count:
        for message in consumer.consume(1000, timeout=0.001):
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise SystemExit(f"the consumer failed: {error}")
            if error is None:
                last_s = time.perf_counter()
                committed_ns = json.loads(message.value() or b"")["after"]["at"]
                took_ms.append((time.perf_counter_ns() - committed_ns) / 1e6)
        if time.perf_counter() - last_s > SILENCE_S_MAX:
            raise SystemExit(f"{len(took_ms)} of {count} rows arrived, and then none for {SILENCE_S_MAX} s")
    return took_ms


def main(arguments: dict[str, Any]) -> dict[str, float]:
    rows, rate = arguments["rows"], arguments["rate"]
    warm_up = int(WARM_UP_S * rate)
    with psycopg.connect(arguments["address"], autocommit=True) as connection:
        insert(connection, 1, rate)  # creates the topic
        consumer = opened(arguments["bootstrap"])
        inserting = threading.Thread(target=insert, args=(connection, warm_up + rows, rate), daemon=True)
        inserting.start()
        took_ms = sorted(read(consumer, 1 + warm_up + rows)[1 + warm_up :])
        consumer.close()
        inserting.join()
    return {"p50": took_ms[len(took_ms) // 2], "p99": took_ms[len(took_ms) * 99 // 100]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
