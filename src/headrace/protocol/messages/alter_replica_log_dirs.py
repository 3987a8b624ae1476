"""AlterReplicaLogDirs: which folder of its broker a replica is to be in.

2: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message


class AlterReplicaLogDirTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[Int32, ...]


class AlterReplicaLogDir(Struct, frozen=True, kw_only=True):
    path: String
    topics: tuple[AlterReplicaLogDirTopic, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsRequest(Struct, frozen=True, kw_only=True):
    dirs: tuple[AlterReplicaLogDir, ...]


class AlterReplicaLogDirPartitionResult(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct, frozen=True, kw_only=True):
    topic_name: String
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_since=2)
class AlterReplicaLogDirsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...]
