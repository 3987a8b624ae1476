"""Stores of accounts, on the broker that the tests run against."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.events import EventStore
from headrace.kafka.cluster import Cluster
from tests.events.accounts import Account, AccountStore

TIMEOUT_S = 30.0
"""A hang is a failure: an operation takes milliseconds."""

OpenStore = Callable[..., AccountStore]


@pytest.fixture
def topic() -> str:
    """A name that nothing else in this run has."""
    return f"accounts-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=TIMEOUT_S)


@pytest.fixture
def open_store(bootstrap: str, topic: str) -> Iterator[OpenStore]:
    """Further stores of the same topic are other writers, as in other processes."""
    opened: list[AccountStore] = []

    def open_store(**options: Any) -> AccountStore:
        options = {"partitions": 1, "timeout_s": TIMEOUT_S, **options}
        store: AccountStore = EventStore(topic, Account(), bootstrap=bootstrap, **options)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> AccountStore:
    return open_store()
