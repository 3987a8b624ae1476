"""AlterReplicaLogDirs: the broker has one folder, so a replica can only move to the folder that it is in."""

from __future__ import annotations

import os

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2))
def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=_outcome(folder.path, topic.name, index, call)
                    )
                    for index in topic.partitions
                ),
            )
            for folder in request.dirs
            for topic in folder.topics
        )
    )


def _outcome(path: str, topic: str, index: int, call: Call) -> ErrorCode:
    if path != os.path.abspath(call.parts.settings.data_dir):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if call.parts.topics.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
