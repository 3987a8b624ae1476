"""A registry beside the topics of the broker that the tests run against."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headrace.gateway.registry.registry import Registry


@pytest.fixture
def registry(bootstrap: str) -> Iterator[Registry]:
    registry = Registry.open(bootstrap, topic=f"_schemas-{uuid.uuid4().hex[:12]}")
    yield registry
    registry.close()
