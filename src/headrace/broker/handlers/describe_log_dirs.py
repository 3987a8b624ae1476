"""DescribeLogDirs: the size of partitions on disk, without segments in the archive. The broker has one folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from headrace.broker.dispatch import Call, handles
from headrace.broker.partition import Partition
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5))
def describe_log_dirs(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    topics = call.parts.topics
    if request.topics is None:
        found = {topic.name: [*topic.partitions] for topic in topics}
    else:
        found = {
            wanted.topic: [
                partition
                for index in wanted.partitions
                if (partition := topics.partition(wanted.topic, index)) is not None
            ]
            for wanted in request.topics
        }
    data_dir = os.path.abspath(call.parts.settings.data_dir)
    disk = shutil.disk_usage(data_dir)
    folder = DescribeLogDirsResult(
        error_code=0,
        log_dir=data_dir,
        topics=tuple(_topic(name, partitions) for name, partitions in found.items() if partitions),
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )
    return DescribeLogDirsResponse(results=(folder,))


def _topic(name: str, partitions: Iterable[Partition]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=name,
        partitions=tuple(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.segments.size_bytes,
                offset_lag=max(partition.log.end_offset - partition.high_watermark, 0),
                is_future_key=False,
            )
            for partition in partitions
        ),
    )
