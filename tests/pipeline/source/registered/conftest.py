"""A registry, with subjects of its own for each test, and Confluent's client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.gateway.registry.serving import running_registry


@pytest.fixture(scope="session")
def registry(bootstrap: str) -> Iterator[str]:
    with running_registry(bootstrap) as url:
        yield url


@pytest.fixture(scope="session")
def client(registry: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry})
