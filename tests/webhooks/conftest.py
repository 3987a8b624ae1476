"""What the tests of webhooks share: a topic, and what is in it."""

from __future__ import annotations

import uuid

import pytest

from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.views.topics import create_topic


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=15)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """With two partitions."""
    name = f"webhooks-{uuid.uuid4().hex[:12]}"
    create_topic(cluster, name, partitions=2)
    return name


def events_in(cluster: Cluster, topic: str) -> list[tuple[bytes | None, dict[str, bytes]]]:
    """Value and headers of each; empty if there is no such topic."""
    if topic not in cluster.topics():
        return []
    return [(each.value(), dict(each.headers() or [])) for each in read_committed(cluster, topic)]  # type: ignore[arg-type]
