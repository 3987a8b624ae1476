"""Fixtures that all clients share: fresh topics, Kafka's Java tools. The broker is in tests/conftest.py."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.testing.apache_kafka import kafka_tools_3_9, kafka_tools_4_3
from headrace.testing.java import JavaTools
from headrace.testing.requirements import require_java

CreateTopic = Callable[..., str]


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def name() -> str:
    """A unique name for a topic or a group."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def create_topic(admin: AdminClient, name: str) -> CreateTopic:
    """Creates a topic, called `name` and `suffix`, with settings such as `cleanup_policy="compact"`."""

    def create(*, suffix: str = "", partitions: int = 1, **settings: str) -> str:
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        created = admin.create_topics([NewTopic(name + suffix, num_partitions=partitions, config=config)])
        created[name + suffix].result(timeout=60)
        return name + suffix

    return create


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A fresh topic with one partition."""
    return create_topic()


@pytest.fixture(scope="session")
def tools_4_3() -> JavaTools:
    require_java()
    return kafka_tools_4_3()


@pytest.fixture(scope="session", params=["4.3", "3.9"])
def java_tools(request: pytest.FixtureRequest) -> JavaTools:
    """Kafka's own tools, of the newest and of the oldest line of Java clients that Headrace serves."""
    require_java()
    return kafka_tools_4_3() if request.param == "4.3" else kafka_tools_3_9()
