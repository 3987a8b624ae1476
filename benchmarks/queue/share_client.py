"""Load on a share group with confluent-kafka: a program of its own, a process for the producer and for each consumer.

    python -m benchmarks.queue.share_client '{"bootstrap": …, "topic": …, …}'      (the fields of `Load`)

The producer is confirmed (acks=all), each message is acknowledged by itself (explicit mode), and counts when the broker
has confirmed that. The clock runs once every consumer has had a message. Prints one JSON object.
"""

from __future__ import annotations

import ctypes
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
"""Nothing acknowledged for so long means that something hangs; the slowest peer does thousands a second."""

FLUSH_TIMEOUT_S = 300
POLL_S = 0.1
WATCH_S = 0.002
PRIMING_INTERVAL_S = 0.05
PRIMING_MESSAGES = 8
TICK_S = 0.001
"""A paced producer sends what is due a thousand times a second."""

FETCH_WAIT_MS = 20
"""A request that finds nothing waits so long, and with it the answer to the acknowledgements that it carries: by the
default of 500 ms, the last ones would be counted half a second late."""

UNCONFIRMED_MAX = 10_000
LATENCY_SKIPPED = 0.2
"""The first part of a paced run is not counted: caches, and the peer's compiler, are cold."""

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
    """Messages a second; 0 for as fast as it goes."""
    linger_ms: int = 5
    """How long the producer waits for a fuller batch; 5 is librdkafka's default."""


class Shared:
    """What the processes tell each other, in memory that they share."""

    def __init__(self, consumers: int) -> None:
        self.delivered = RawArray(ctypes.c_int64, consumers)
        self.settled = RawArray(ctypes.c_int64, consumers)
        self.refused = RawArray(ctypes.c_int64, consumers)
        self.producer_is_ready = RawValue(ctypes.c_bool, False)
        self.go = RawValue(ctypes.c_bool, False)
        self.stop = RawValue(ctypes.c_bool, False)


def consume(load: Load, shared: Shared, index: int, results: Any) -> None:
    """Take, acknowledge, and take again: the acknowledgements go with the next request, as the client does it."""

    def on_settled(offsets: dict[Any, set[int]], error: KafkaException | None) -> None:
        count = sum(len(each) for each in offsets.values())
        (shared.settled if error is None else shared.refused)[index] += count

    consumer = ShareConsumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": load.group,
            "share.acknowledgement.mode": "explicit",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
        }
    )
    consumer.set_acknowledgement_commit_callback(on_settled)
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
    """The producer, and what it was told about its messages."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._failed: list[KafkaError] = []
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
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:  # as many are unconfirmed as may be
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
    """Send a little until every consumer has had some and all of it is settled; how much it was."""
    sender, sent = Sender(load), 0
    deadline_s = _Clock() + JOIN_TIMEOUT_S
    while not all(shared.delivered):
        sender.send(PRIMING_MESSAGES)
        sender.finish()
        sent += PRIMING_MESSAGES
        time.sleep(PRIMING_INTERVAL_S)
        if _Clock() > deadline_s:
            raise SystemExit(f"after {JOIN_TIMEOUT_S} s, the consumers had {list(shared.delivered)} messages")
    wait_until_settled(shared, sent)
    return sent


def wait_until_settled(shared: Shared, count: int) -> None:
    last, last_s = -1, _Clock()
    while (settled := sum(shared.settled)) < count:
        if settled != last:
            last, last_s = settled, _Clock()
        if _Clock() > last_s + SILENCE_TIMEOUT_S:
            raise SystemExit(
                f"stuck at {settled} of {count}; delivered {sum(shared.delivered)}, refused {sum(shared.refused)}"
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
    context = multiprocessing.get_context("fork")  # nothing of the client is alive yet in this process
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
    wait_until_settled(shared, primed + load.messages)
    producer.join()  # long done, unless the queue was full to begin with and others' messages were settled
    took_s = _Clock() - started_s
    if producer.exitcode != 0:
        raise SystemExit("the producer failed")
    shared.stop.value = True
    parts = [receiver.recv() for receiver, _ in pipes]
    return {
        "messages_per_s": load.messages / took_s,
        "primed": primed,
        "delivered_again": sum(shared.delivered) - load.messages - primed,
        "refused": sum(shared.refused),
        **percentiles_ms(parts),
    }


def main() -> None:
    print(json.dumps(run(Load(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
