"""Topics with messages, and queues on them, on the broker that the tests run against."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.kafka.cluster import Cluster
from headrace.queue import Message, Queue

TIMEOUT_S = 30.0
"""A hang is a failure: an operation takes milliseconds."""

OpenQueue = Callable[..., Queue]
Send = Callable[..., None]


@pytest.fixture
def name() -> str:
    """A name that nothing else in this run has."""
    return f"q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group(name: str) -> str:
    return f"{name}-workers"


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def create_topic(admin: AdminClient) -> Callable[..., str]:
    def create(topic: str, partitions: int = 1) -> str:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)
        return topic

    return create


@pytest.fixture
def topic(create_topic: Callable[..., str], name: str) -> str:
    return create_topic(name)


@pytest.fixture
def send(bootstrap: str) -> Send:
    """Messages, each in a batch of its own: Apache Kafka delivers whole batches."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "batch.num.messages": 1})

    def send(topic: str, *values: str, key: str | None = None, **headers: str) -> None:
        for value in values:
            producer.produce(topic, value, key, headers=dict(headers))
        assert producer.flush(TIMEOUT_S) == 0

    return send


@pytest.fixture
def open_queue(bootstrap: str) -> OpenQueue:
    def open_queue(*topics: str, group: str, **options: object) -> Queue:
        return Queue(*topics, group=group, bootstrap=bootstrap, **options)  # type: ignore[arg-type]

    return open_queue


@pytest.fixture
def set_group(bootstrap: str) -> Callable[..., None]:
    """`set_group("senders", share_delivery_count_limit=2)`"""

    def set_group(group: str, **settings: object) -> None:
        wanted = {setting.replace("_", "."): str(value) for setting, value in settings.items()}
        Cluster(bootstrap, timeout_s=TIMEOUT_S).alter_configs("group", group, wanted)

    return set_group


def take(queue: Queue, count: int) -> list[Message]:
    """The next messages, not acknowledged."""
    messages: list[Message] = []
    for _ in range(count):
        message = queue.get(timeout=TIMEOUT_S)
        assert message is not None, f"only {len(messages)} of {count} messages were delivered"
        messages.append(message)
    return messages


def values(messages: Iterable[Message]) -> list[str]:
    return [message.value.decode() for message in messages]
