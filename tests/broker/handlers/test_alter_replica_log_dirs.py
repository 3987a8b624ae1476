"""AlterReplicaLogDirs over the wire, compared with Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.testing.wire import Wire


def move(wire: Wire, path: str, topic: str, partition: int, version: int = 2) -> int:
    topics = (AlterReplicaLogDirTopic(name=topic, partitions=(partition,)),)
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))
    ((result,),) = [one.partitions for one in wire.request(request, version=version).results]
    assert result.partition_index == partition
    code: int = result.error_code
    return code


@pytest.mark.parametrize("version", [1, 2])
def test_replica_can_only_be_in_the_only_folder(any_wire: Wire, any_topic: str, version: int) -> None:
    (folder,) = any_wire.request(DescribeLogDirsRequest(topics=None)).results
    assert move(any_wire, folder.log_dir, any_topic, 0, version) == 0
    assert move(any_wire, folder.log_dir, any_topic, 9, version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for other in ("/no/such/folder", "relative", ""):
        assert move(any_wire, other, any_topic, 0, version) == ErrorCode.LOG_DIR_NOT_FOUND
