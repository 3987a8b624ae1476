"""A broker that restarts under a queue that is in use."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from headrace import Broker
from headrace.queue import Queue
from tests.queue.conftest import TIMEOUT_S, take, values

MESSAGES = [f"message {number}" for number in range(20)]


def test_queue_continues_after_a_restart_without_the_accepted_messages(tmp_path: Path) -> None:
    with Broker(str(tmp_path / "data"), port=0) as broker:
        bootstrap = broker.bootstrap
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for text in MESSAGES:
            producer.produce("emails", text)
        assert producer.flush(TIMEOUT_S) == 0
        queue = Queue("emails", group="senders", bootstrap=bootstrap, prefetch=5, config={"log_level": 0})
        queue.open()
        first = take(queue, 5)
        for each in first:
            each.accept()
        queue.flush()
        held = take(queue, 1)[0]
    port = int(bootstrap.rpartition(":")[2])
    with Broker(str(tmp_path / "data"), port=port), queue:
        held.accept()  # rejected: its lock ended with the old broker
        later: set[str] = set()
        while len(later) < len(MESSAGES) - len(first):
            (message,) = take(queue, 1)
            later.add(message.value.decode())
            message.accept()
    assert later == set(MESSAGES) - set(values(first))
