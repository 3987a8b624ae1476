"""Topics with records in them, and Apache Kafka. Spark and the broker are in tests/conftest.py."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.requirements import require_java
from tests.compatibility.topic_contents import write

TIMEOUT_S = 60.0
"""A hang is a failure."""

CreateTopic = Callable[..., str]


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    require_java()
    with ApacheKafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def name() -> str:
    """A name that nothing else in this run has, for a topic, a job or a table."""
    return f"p-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def create_topic(admin: AdminClient, name: str) -> CreateTopic:
    """Creates a topic, called `prefix`, `name` and `suffix`."""

    def create(*, prefix: str = "", suffix: str = "", partitions: int = 1) -> str:
        topic = prefix + name + suffix
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)
        return topic

    return create


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A fresh topic with one partition."""
    return create_topic()


@pytest.fixture
def send(bootstrap: str) -> Callable[..., None]:
    """`send(topic, {"user": "ann"}, b"not json", None)`: an object becomes JSON, bytes and None stay what they are."""

    def send(topic: str, *contents: Any, **record: Any) -> None:
        values = (one if one is None or isinstance(one, bytes) else json.dumps(one) for one in contents)
        write(bootstrap, topic, [{"value": one, **record} for one in values])

    return send
