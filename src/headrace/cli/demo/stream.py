"""The small live stream of `headrace run`: a producer of clicks, and a consumer group."""

from __future__ import annotations

import abc
import contextlib
import json
import random
import threading
import time
from datetime import UTC, datetime
from typing import Self

from confluent_kafka import Consumer, Producer

from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster

TOPIC = "clicks"
GROUP = "click-counter"
PARTITIONS = 4
# A demonstration that runs for a week must not fill the disk: the topic keeps an hour, in small segments.
TOPIC_CONFIG = {"retention.ms": "3600000", "segment.bytes": "16777216"}
TICK_S = 0.02
COMMIT_EVERY_S = 1.0
STOP_TIMEOUT_S = 5.0

_URLS = ("/", "/search", "/cart", "/checkout", "/help", "/product/7", "/product/12", "/product/31")


def create_topic(cluster: Cluster) -> None:
    """The stream's topic, unless an earlier run has created it."""
    cluster.create_topic(TOPIC, partitions=PARTITIONS, config=TOPIC_CONFIG, exist_ok=True)


class Worker(abc.ABC):
    """A thread that runs while its context is open; `check` raises what it failed with."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)

    def check(self) -> None:
        if self.failure is not None:
            raise HeadraceError(f"the live stream stopped: {self.failure}") from self.failure

    def _guarded(self) -> None:
        try:
            self._work()
        except Exception as failure:
            self.failure = failure

    @abc.abstractmethod
    def _work(self) -> None: ...


class Clicks(Worker):
    """Writes small JSON events at a steady rate."""

    def __init__(self, cluster: Cluster, *, rate: float) -> None:
        super().__init__()
        self._producer = Producer(cluster.client_config(enable_idempotence=True, linger_ms=5))
        self._rate = rate

    def _work(self) -> None:
        started_s, sent = time.monotonic(), 0
        while not self._stopping.is_set():
            due = int((time.monotonic() - started_s) * self._rate)
            for _ in range(due - sent):
                self._click()
            sent = due
            self._producer.poll(TICK_S)
            self._stopping.wait(TICK_S)
        self._producer.flush(STOP_TIMEOUT_S)

    def _click(self) -> None:
        user = f"user-{random.randrange(500)}"
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        event = {"user": user, "url": random.choice(_URLS), "at": at}
        # If the broker is too slow, this click is dropped.
        with contextlib.suppress(BufferError):
            self._producer.produce(TOPIC, key=user, value=json.dumps(event))


class Follower(Worker):
    """A consumer group that reads the clicks and commits every second."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._consumer = Consumer(
            cluster.client_config(
                group_id=GROUP,
                auto_offset_reset="earliest",
                auto_commit_interval_ms=int(COMMIT_EVERY_S * 1000),
            )
        )

    def _work(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self._stopping.is_set():
            self._consumer.consume(500, timeout=0.1)
        self._consumer.close()
