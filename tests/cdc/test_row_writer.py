"""Rows of snapshots in a topic, in transactions with the position."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.cdc.envelope import Layout, Record
from headrace.cdc.errors import BadCapture
from headrace.cdc.publisher import Kept, Publisher
from headrace.kafka.cluster import Cluster
from tests.cdc.conftest import committed_records

LAYOUT = Layout(key=(b'{"id":', b"}"), value=(b'{"id":', b',"text":', b"}"), key_columns=(0,))


def columns(first: int, count: int, text: bytes = b'"x"') -> list[pa.BinaryArray]:
    ids = pa.array([b"%d" % number for number in range(first, first + count)], pa.binary())
    return [ids, pa.array([text] * count, pa.binary())]


def ids(bootstrap: str, topic: str) -> list[int]:
    return [key["id"] for key, _ in committed_records(bootstrap, topic)]


def opened(
    name: str, cluster: Cluster, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Publisher:
    publisher = Publisher(name, cluster)
    publisher.ensure_topic(
        f"{name}.t", partitions=partitions, config={"cleanup.policy": "compact", **(config or {})}
    )
    publisher.begin_rows()
    return publisher


def test_rows_are_committed_with_the_position(name: str, cluster: Cluster, bootstrap: str) -> None:
    publisher = opened(name, cluster)
    publisher.write_rows(f"{name}.t", LAYOUT, columns(0, 10_000))
    publisher.commit(Kept(position={"row": 10_000}))
    publisher.write_rows(f"{name}.t", LAYOUT, columns(10_000, 5))
    publisher.close()  # without a commit
    again = Publisher(name, cluster)
    assert again.kept() == Kept(position={"row": 10_000})
    again.begin_rows()
    again.write_rows(f"{name}.t", LAYOUT, columns(20_000, 2))
    again.write_rows(f"{name}.t", LAYOUT, columns(20_002, 1))
    again.commit(Kept(position={"row": 10_003}))
    again.close()
    assert ids(bootstrap, f"{name}.t") == [*range(10_000), 20_000, 20_001, 20_002]


def test_single_records_follow_rows_and_rows_follow_them(name: str, cluster: Cluster, bootstrap: str) -> None:
    publisher = opened(name, cluster)
    for number in range(0, 6, 3):
        publisher.write_rows(f"{name}.t", LAYOUT, columns(number, 1))
        publisher.write(f"{name}.t", Record(b'{"id":%d}' % (number + 1), b'{"text":"x"}'))
        publisher.commit(Kept(position={"row": number + 1}))
        publisher.end_rows()
        publisher.write(f"{name}.t", Record(b'{"id":%d}' % (number + 2), b'{"text":"y"}'))
        publisher.commit(Kept(position={"row": number + 2}))
        publisher.begin_rows()
    assert ids(bootstrap, f"{name}.t") == list(range(6))
    assert publisher.kept() == Kept(position={"row": 5})
    publisher.close()


def test_rows_have_the_partitions_that_a_client_chooses(name: str, cluster: Cluster, bootstrap: str) -> None:
    publisher = opened(name, cluster, partitions=3)
    publisher.ensure_topic(f"{name}.other", partitions=3, config={})
    publisher.write_rows(f"{name}.t", LAYOUT, columns(0, 300))
    publisher.commit(Kept(position={"row": 300}))
    publisher.close()
    client = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(300):
        client.produce(f"{name}.other", b"x", b'{"id":%d}' % number)
    client.flush(30)
    # The end of the transaction is a record too.
    ends = [
        {partition.number: end for partition, end in cluster.latest(cluster.partitions(topic)).items()}
        for topic in (f"{name}.t", f"{name}.other")
    ]
    assert {number: end - 1 for number, end in ends[0].items()} == ends[1]
    assert sorted(ids(bootstrap, f"{name}.t")) == list(range(300))


def test_rows_that_do_not_compress_are_split_into_batches_that_fit(
    name: str, cluster: Cluster, bootstrap: str
) -> None:
    publisher = opened(name, cluster)
    noise = [json.dumps(random.Random(number).randbytes(20_000).hex()).encode() for number in range(150)]
    rows = [columns(0, 150)[0], pa.array(noise, pa.binary())]
    publisher.write_rows(f"{name}.t", LAYOUT, rows)
    publisher.commit(Kept(position={"row": 150}))
    publisher.close()
    assert ids(bootstrap, f"{name}.t") == list(range(150))


def test_row_that_is_too_large_for_its_topic_is_an_error_with_the_remedy(name: str, cluster: Cluster) -> None:
    publisher = opened(name, cluster, config={"max.message.bytes": "10000"})
    noise = json.dumps(random.Random(1).randbytes(50_000).hex()).encode()
    publisher.write_rows(f"{name}.t", LAYOUT, columns(0, 1, noise))
    with pytest.raises(BadCapture, match="MESSAGE_TOO_LARGE") as rejected:
        publisher.commit(Kept(position={"row": 1}))
    assert "max.message.bytes" in rejected.value.hint
    publisher.close()


def test_earlier_owner_that_writes_rows_is_fenced(name: str, cluster: Cluster, bootstrap: str) -> None:
    first = opened(name, cluster)
    first.write_rows(f"{name}.t", LAYOUT, columns(0, 3))
    first.commit(Kept(position={"row": 3}))
    first.write_rows(f"{name}.t", LAYOUT, columns(3, 3))
    second = Publisher(name, cluster)
    second_owner = "another process has opened it: process"
    with pytest.raises(BadCapture, match=second_owner):
        first.commit(Kept(position={"row": 6}))
    assert second.kept() == Kept(position={"row": 3})
    assert ids(bootstrap, f"{name}.t") == [0, 1, 2]
    first.close()
    second.close()


def test_process_that_has_lost_the_capture_does_not_take_it_back(name: str, cluster: Cluster) -> None:
    first = opened(name, cluster)
    first.write_rows(f"{name}.t", LAYOUT, columns(0, 3))
    first.commit(Kept(position={"row": 3}))
    second = Publisher(name, cluster)
    with pytest.raises(BadCapture, match="another process has opened it"):
        first.end_rows()
    first.close()
    second.close()
