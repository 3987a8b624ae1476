"""AlterReplicaLogDirs: which folder of its broker a replica is to be in.

2: flexible.
"""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message
from headrace.values import value


@value
class AlterReplicaLogDirTopic:
    name: String
    partitions: tuple[Int32, ...]


@value
class AlterReplicaLogDir:
    path: String
    topics: tuple[AlterReplicaLogDirTopic, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]


@value
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: Int16


@value
class AlterReplicaLogDirTopicResult:
    topic_name: String
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...]
