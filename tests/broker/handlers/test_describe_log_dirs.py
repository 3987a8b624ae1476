"""DescribeLogDirs over the wire."""

from __future__ import annotations

import os

import pytest

from headrace.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import batch, create_topic, new_name, produce


@pytest.mark.parametrize("version", range(1, 6))
def test_size_of_a_partition_is_that_of_its_batches(wire: Wire, version: int) -> None:
    name, records = new_name(), batch(b"x", b"y")
    create_topic(wire, name, partitions=2)
    produce(wire, name, records, partition=1)
    wanted = DescribableLogDirTopic(topic=name, partitions=(0, 1, 2))
    response = wire.request(DescribeLogDirsRequest(topics=(wanted,)), version=version)
    (folder,) = response.results
    (topic,) = folder.topics
    assert topic.name == name
    sizes = {part.partition_index: part.partition_size for part in topic.partitions}
    assert sizes == {0: 0, 1: len(records)}
    if version >= 4:
        assert folder.total_bytes > folder.usable_bytes > 0


def test_all_topics_and_the_folder_are_described(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker()
    wire = connect(broker)
    create_topic(wire, "a")
    create_topic(wire, "b")
    (folder,) = wire.request(DescribeLogDirsRequest(topics=None)).results
    assert os.path.isdir(os.path.join(folder.log_dir, "metadata"))
    assert {"a", "b"} <= {topic.name for topic in folder.topics}


def test_missing_topic_is_not_described(wire: Wire) -> None:
    wanted = DescribableLogDirTopic(topic="missing", partitions=(0,))
    (folder,) = wire.request(DescribeLogDirsRequest(topics=(wanted,))).results
    assert folder.topics == ()
