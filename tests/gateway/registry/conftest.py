"""A registry over HTTP, on a topic of its own of the broker that the tests run against."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest

from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster
from tests.gateway.registry.serving import served

TIMEOUT_S = 30.0

OpenRegistry = Callable[..., Registry]


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=TIMEOUT_S)


@pytest.fixture
def topic() -> str:
    return f"_schemas-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def open_registry(bootstrap: str, topic: str) -> Iterator[OpenRegistry]:
    """Further registries of the same topic are other gateways, as in other processes."""
    with contextlib.ExitStack() as stack:

        def open_registry(**options: object) -> Registry:
            registry = Registry.open(bootstrap, **{"topic": topic, **options})
            stack.callback(registry.close)
            return registry

        yield open_registry


@pytest.fixture
def registry(open_registry: OpenRegistry) -> Registry:
    return open_registry()


@pytest.fixture
def url(registry: Registry) -> Iterator[str]:
    with served(registry) as url:
        yield url


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=TIMEOUT_S) as http:
        yield http
