"""A cluster, on whichever broker the tests run against."""

from __future__ import annotations

import uuid

import pytest

from headrace.kafka.cluster import Cluster


@pytest.fixture
def name() -> str:
    """A name that nothing else in this run has."""
    return f"kafka-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)
