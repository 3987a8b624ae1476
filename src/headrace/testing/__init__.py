"""The test kit: sources and sinks for tests of jobs, faults at a chosen point, real servers.

    from headrace.testing import Collect, Feed, abort_at

The fixtures (`headrace_broker`, `headrace_spark`, `headrace_feed`, `headrace_name`) need no import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.apache_kafka import ApacheKafka
    from headrace.testing.collect import Collect
    from headrace.testing.faults import JobAborted, abort_at
    from headrace.testing.feed import Feed
    from headrace.testing.manual_clock import ManualClock
    from headrace.testing.postgres import PostgresServer
    from headrace.testing.redis_server import RedisServer
    from headrace.testing.spark_cluster import SparkCluster

__all__ = [
    "ApacheKafka",
    "Collect",
    "Feed",
    "JobAborted",
    "ManualClock",
    "PostgresServer",
    "RedisServer",
    "SparkCluster",
    "abort_at",
]

_MODULES = {
    "ApacheKafka": "apache_kafka",
    "Collect": "collect",
    "Feed": "feed",
    "JobAborted": "faults",
    "ManualClock": "manual_clock",
    "PostgresServer": "postgres",
    "RedisServer": "redis_server",
    "SparkCluster": "spark_cluster",
    "abort_at": "faults",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for: a test of queues needs no Spark."""
    if name in _MODULES:
        found = getattr(importlib.import_module(f"headrace.testing.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
