"""Brokers inside the test process, connections to them, and what they say of themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.testing.wire import Wire
from tests.broker.requests import create_topic, fetch, new_name

StartBroker = Callable[..., Broker]
Connect = Callable[..., Wire]

COORDINATOR_TIMEOUT_S = 30


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens connections that are closed after the test."""
    with ExitStack() as stack:

        def open_one(broker: Broker | str, **options: Any) -> Wire:
            bootstrap = broker if isinstance(broker, str) else broker.bootstrap
            return stack.enter_context(Wire(bootstrap, **options))

        yield open_one


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """Starts brokers with settings of the test's own; all are stopped after it."""
    with ExitStack() as stack:

        def start(*args: Any, **settings: Any) -> Broker:
            return stack.enter_context(Broker(*args, **settings))

        yield start


@pytest.fixture
def wire(headrace_broker: Broker, connect: Connect) -> Wire:
    """A connection to the broker that the tests of a run share."""
    return connect(headrace_broker)


@pytest.fixture
def topic(wire: Wire) -> str:
    """A fresh topic with one partition on the shared broker."""
    name = new_name()
    create_topic(wire, name)
    return name


@pytest.fixture
def any_wire(bootstrap: str, connect: Connect) -> Wire:
    """A connection to the broker of the run, which may be Apache Kafka: see tests/conftest.py."""
    return connect(bootstrap)


@pytest.fixture
def any_topic(any_wire: Wire) -> str:
    """A fresh topic with two partitions on the broker of the run."""
    name = new_name()
    create_topic(any_wire, name, partitions=2)
    for partition in range(2):
        # Kafka answers before the partitions have their leaders.
        while fetch(any_wire, name, partition=partition).error_code:
            time.sleep(0.02)
    return name


@pytest.fixture
def any_group(any_wire: Wire) -> str:
    """A name whose coordinator is there on the broker of the run: Kafka has to make its topic of offsets first."""
    name = new_name("g")

    def is_served() -> bool:
        if any_wire.request(FindCoordinatorRequest(key_type=0, key=name), version=3).error_code:
            return False
        described = any_wire.request(DescribeGroupsRequest(groups=(name,)), version=5)
        return not described.groups[0].error_code

    deadline_s = time.monotonic() + COORDINATOR_TIMEOUT_S
    while not is_served():
        assert time.monotonic() < deadline_s, "there is no coordinator"
        time.sleep(0.02)
    return name
