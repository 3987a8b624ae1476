"""Failed requests of a queue are QueueUnusable, with the hint of the request or that of a broker without queues."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.kafka.errors import RequestFailed
from headrace.queue import QueueUnusable
from headrace.queue.errors import queue_errors


def test_failed_request_keeps_its_message_and_hint() -> None:
    with pytest.raises(QueueUnusable) as unusable, queue_errors():
        raise RequestFailed("no such thing", hint="try another", code=KafkaError.UNSUPPORTED_VERSION)

    assert (unusable.value.message, unusable.value.hint) == ("no such thing", "try another")


def test_broker_without_queues_is_named_as_such() -> None:
    with pytest.raises(QueueUnusable, match=r"Apache Kafka 4\.2 or later"), queue_errors():
        raise RequestFailed("unsupported", code=KafkaError.UNSUPPORTED_VERSION)


def test_other_errors_are_not_changed() -> None:
    with pytest.raises(ValueError, match="a bug"), queue_errors():
        raise ValueError("a bug")
