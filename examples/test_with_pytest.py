"""A Kafka for tests, without Docker: the `headrace_broker` fixture comes with the package.

pytest examples/test_with_pytest.py        (or: python examples/test_with_pytest.py)
"""

from __future__ import annotations

import json
import sys
import uuid

import pytest
from confluent_kafka import Consumer, Producer

from headrace import Broker


def publish_order(bootstrap: str, topic: str, order: dict[str, object]) -> None:
    """The code under test: a part of your own program."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, key=str(order["id"]), value=json.dumps(order))
    producer.flush()


@pytest.fixture
def topic() -> str:
    """All tests of a run share the broker; a unique name isolates each test."""
    return f"orders-{uuid.uuid4().hex[:8]}"


def test_order_is_published_under_its_id(headrace_broker: Broker, topic: str) -> None:
    publish_order(headrace_broker.bootstrap, topic, {"id": 7, "total": 12.5})

    consumer = Consumer(
        {
            "bootstrap.servers": headrace_broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()

    assert message is not None
    assert message.key() == b"7"
    assert json.loads(message.value()) == {"id": 7, "total": 12.5}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
