"""The test kit: sources and sinks for tests of jobs, faults at a chosen point, real servers.

    from headrace.testing import Collect, Feed, abort_at

The fixtures (`headrace_broker`, `headrace_spark`, `headrace_feed`, `headrace_name`) need no import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.testing.apache_kafka import ApacheKafka
    from headrace.testing.collect import Collect
    from headrace.testing.failing_archive import FailingArchive
    from headrace.testing.failing_filesystem import FailingFileSystem, PowerLost
    from headrace.testing.faults import JobAborted, abort_at
    from headrace.testing.feed import Feed
    from headrace.testing.hdfs import HdfsCluster
    from headrace.testing.java import JavaTools
    from headrace.testing.manual_clock import ManualClock
    from headrace.testing.mariadb import MariadbServer
    from headrace.testing.opensearch import OpenSearchServer
    from headrace.testing.ports import free_port, free_ports
    from headrace.testing.postgres import PostgresServer
    from headrace.testing.redis_server import RedisServer
    from headrace.testing.s3 import S3Server
    from headrace.testing.server_process import ServerProcess
    from headrace.testing.spark_cluster import SparkCluster
    from headrace.testing.wire import Wire
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "apache_kafka": ("ApacheKafka",),
            "collect": ("Collect",),
            "failing_archive": ("FailingArchive",),
            "failing_filesystem": ("FailingFileSystem", "PowerLost"),
            "faults": ("JobAborted", "abort_at"),
            "feed": ("Feed",),
            "hdfs": ("HdfsCluster",),
            "java": ("JavaTools",),
            "manual_clock": ("ManualClock",),
            "mariadb": ("MariadbServer",),
            "opensearch": ("OpenSearchServer",),
            "ports": ("free_port", "free_ports"),
            "postgres": ("PostgresServer",),
            "redis_server": ("RedisServer",),
            "s3": ("S3Server",),
            "server_process": ("ServerProcess",),
            "spark_cluster": ("SparkCluster",),
            "wire": ("Wire",),
        },
    )

__all__ = [
    "ApacheKafka",
    "Collect",
    "FailingArchive",
    "FailingFileSystem",
    "Feed",
    "HdfsCluster",
    "JavaTools",
    "JobAborted",
    "ManualClock",
    "MariadbServer",
    "OpenSearchServer",
    "PostgresServer",
    "PowerLost",
    "RedisServer",
    "S3Server",
    "ServerProcess",
    "SparkCluster",
    "Wire",
    "abort_at",
    "free_port",
    "free_ports",
]
