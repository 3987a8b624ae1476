"""Load on a share group with confluent-kafka: a program with one process for the producer and for each consumer.

    python -m benchmarks.queue.share_client '{"bootstrap": …, "topic": …, …}'      (the fields of `Load`)

The producer uses acks=all. Each message is acknowledged individually (explicit mode), and counts when the broker has
confirmed that. The time starts when every consumer has received a message. Prints one JSON object.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import multiprocessing
import struct
import sys
import time
from array import array
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, ShareConsumer

JOIN_TIMEOUT_S = 60
SILENCE_TIMEOUT_S = 20
"""Without any acknowledgement for this time, the load hangs; the slowest peer processes thousands a second."""

FLUSH_TIMEOUT_S = 300
POLL_S = 0.1
WATCH_S = 0.002
PRIMING_INTERVAL_S = 0.05
PRIMING_MESSAGES = 8
TICK_S = 0.001
"""A producer with a rate sends the due messages a thousand times a second."""

FETCH_WAIT_MS = 20
"""A fetch without records waits this long, and so does the response to its acknowledgements. With the default of
500 ms, the last acknowledgements would be counted half a second late."""

UNCONFIRMED_MAX = 10_000
LATENCY_SKIPPED = 0.2
"""The first part of a run with a rate, which is not counted: caches are cold, and Java compiles."""

_SENT_AT = struct.Struct(">d")
_Clock = time.monotonic  # one clock for all processes of a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    bootstrap: str
    topic: str
    group: str
    messages: int
    consumers: int = 1
    message_bytes: int = 100
    rate: int = 0
    """Messages per second; 0 for as fast as possible."""
    linger_ms: int = 5
    """How long the producer waits for a fuller batch; 5 is librdkafka's default."""
    keys: int = 0
    """Different keys, each in its turn; 0 for messages without a key."""


class Shared:
    """The shared memory of the processes."""

    def __init__(self, consumers: int) -> None:
        self.delivered = RawArray(ctypes.c_int64, consumers)
        self.acknowledged = RawArray(ctypes.c_int64, consumers)
        self.failed = RawArray(ctypes.c_int64, consumers)
        self.producer_is_ready = RawValue(ctypes.c_bool, False)
        self.go = RawValue(ctypes.c_bool, False)
        self.stop = RawValue(ctypes.c_bool, False)


def consume(load: Load, shared: Shared, index: int, results: Any) -> None:
    """Fetch, acknowledge, and fetch again. The client sends the acknowledgements with the next fetch."""

    def on_acknowledged(offsets: dict[Any, set[int]], error: KafkaException | None) -> None:
        count = sum(len(each) for each in offsets.values())
        (shared.acknowledged if error is None else shared.failed)[index] += count

    consumer = ShareConsumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": load.group,
            "share.acknowledgement.mode": "explicit",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
        }
    )
    consumer.set_acknowledgement_commit_callback(on_acknowledged)
    consumer.subscribe([load.topic])
    sent_at, latency_s = array("d"), array("d")
    acknowledge, timed = consumer.acknowledge, load.rate > 0
    while not shared.stop.value:
        messages = consumer.poll(POLL_S)
        now = _Clock()
        for message in messages:
            if message.error() is not None:
                raise SystemExit(f"consuming failed: {message.error()}")
            if timed:
                (at,) = _SENT_AT.unpack_from(message.value() or b"")
                sent_at.append(at)
                latency_s.append(now - at)
            acknowledge(message)
        shared.delivered[index] += len(messages)
    consumer.close()
    results.send((sent_at.tobytes(), latency_s.tobytes()))
    results.close()


class Sender:
    """The producer, and the failures of its messages."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._failed: list[KafkaError] = []
        self._keys = itertools.cycle([f"key-{number}" for number in range(load.keys)] or [None])
        self._padding = b"x" * (load.message_bytes - _SENT_AT.size)
        self._producer = Producer(
            {
                "bootstrap.servers": load.bootstrap,
                "acks": "all",
                "linger.ms": load.linger_ms,
                "queue.buffering.max.messages": UNCONFIRMED_MAX,
                "delivery.report.only.error": True,
                "on_delivery": self._on_delivery,
            }
        )

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def connect(self) -> None:
        self._producer.list_topics(self._load.topic, timeout=JOIN_TIMEOUT_S)

    def send(self, count: int) -> None:
        produce, topic, padding = self._producer.produce, self._load.topic, self._padding
        for _ in range(count):
            value = _SENT_AT.pack(_Clock()) + padding
            key = next(self._keys)
            while True:
                try:
                    produce(topic, value, key)
                    break
                except BufferError:  # the limit of unconfirmed messages is reached
                    self._producer.poll(0.001)

    def send_paced(self, count: int, rate: int) -> None:
        started_s, sent = _Clock(), 0
        while sent < count:
            due = min(count, int((_Clock() - started_s) * rate))
            self.send(due - sent)
            sent = max(sent, due)
            self._producer.poll(0)
            time.sleep(TICK_S)

    def finish(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if left or self._failed:
            raise SystemExit(
                f"{left} messages were not sent in time, {len(self._failed)} failed: {self._failed[:1]}"
            )


def produce(load: Load, shared: Shared) -> None:
    sender = Sender(load)
    sender.connect()
    shared.producer_is_ready.value = True
    while not shared.go.value:
        time.sleep(WATCH_S)
    if load.rate:
        sender.send_paced(load.messages, load.rate)
    else:
        sender.send(load.messages)
    sender.finish()


def prime(load: Load, shared: Shared) -> int:
    """Send messages until every consumer has received one and all are acknowledged; returns their number."""
    sender, sent = Sender(load), 0
    deadline_s = _Clock() + JOIN_TIMEOUT_S
    while not all(shared.delivered):
        sender.send(PRIMING_MESSAGES)
        sender.finish()
        sent += PRIMING_MESSAGES
        time.sleep(PRIMING_INTERVAL_S)
        if _Clock() > deadline_s:
            raise SystemExit(
                f"after {JOIN_TIMEOUT_S} s, the consumers had only {list(shared.delivered)} messages"
            )
    wait_until_acknowledged(shared, sent)
    return sent


def wait_until_acknowledged(shared: Shared, count: int) -> None:
    last, last_s = -1, _Clock()
    while (acknowledged := sum(shared.acknowledged)) < count:
        if acknowledged != last:
            last, last_s = acknowledged, _Clock()
        if _Clock() > last_s + SILENCE_TIMEOUT_S:
            raise SystemExit(
                f"stuck at {acknowledged} of {count}; delivered {sum(shared.delivered)}, failed {sum(shared.failed)}"
            )
        time.sleep(WATCH_S)


def percentiles_ms(parts: list[tuple[bytes, bytes]]) -> dict[str, float]:
    sent_at, latency_s = array("d"), array("d")
    for sent_bytes, latency_bytes in parts:
        sent_at.frombytes(sent_bytes)
        latency_s.frombytes(latency_bytes)
    if not sent_at:
        return {}
    in_order = [latency for _, latency in sorted(zip(sent_at, latency_s, strict=True))]
    counted = sorted(in_order[int(len(in_order) * LATENCY_SKIPPED) :])
    return {
        "p50_ms": counted[len(counted) // 2] * 1000,
        "p99_ms": counted[int(len(counted) * 0.99)] * 1000,
    }


def run(load: Load) -> dict[str, float]:
    context = multiprocessing.get_context("fork")  # this process has no client yet
    shared = Shared(load.consumers)
    pipes = [context.Pipe(duplex=False) for _ in range(load.consumers)]
    children: list[BaseProcess] = [
        context.Process(target=consume, args=(load, shared, index, pipes[index][1]), daemon=True)
        for index in range(load.consumers)
    ]
    producer = context.Process(target=produce, args=(load, shared), daemon=True)
    for child in (*children, producer):
        child.start()
    primed = prime(load, shared)
    while not shared.producer_is_ready.value and producer.is_alive():
        time.sleep(WATCH_S)
    started_s = _Clock()
    shared.go.value = True
    wait_until_acknowledged(shared, primed + load.messages)
    producer.join()  # already done, unless the queue was full before and older messages were acknowledged
    took_s = _Clock() - started_s
    if producer.exitcode != 0:
        raise SystemExit("the producer failed")
    shared.stop.value = True
    parts = [receiver.recv() for receiver, _ in pipes]
    return {
        "messages_per_s": load.messages / took_s,
        "primed": primed,
        "redelivered": sum(shared.delivered) - load.messages - primed,
        "failed": sum(shared.failed),
        **percentiles_ms(parts),
    }


def main() -> None:
    print(json.dumps(run(Load(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
