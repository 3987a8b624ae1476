"""Topics of a test, which exist when they are created: Apache Kafka shows a new one a moment later."""

from __future__ import annotations

from typing import Any

from headrace.kafka.cluster import Cluster

APPEAR_S_MAX = 30.0


def create_topic(cluster: Cluster, topic: str, **options: Any) -> None:
    cluster.create_topic(topic, **options)
    cluster.require_topics([topic], appear_s_max=APPEAR_S_MAX)
