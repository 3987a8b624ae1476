"""Topics that are read as a whole."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.kafka.errors import RequestFailed


def test_committed_records_of_all_partitions_are_read_to_the_end(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=3)
    producer = Producer(cluster.client_config(**{"transactional.id": name}))
    producer.init_transactions(30)
    for number, is_committed in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(name, f"{number}-{partition}", partition=partition)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    values = [message.value() or b"" for message in read_committed(cluster, name)]
    assert sorted(values) == [b"0-0", b"0-1", b"0-2", b"2-0", b"2-1", b"2-2"]
    assert [value for value in values if value.endswith(b"-1")] == [b"0-1", b"2-1"]


def test_only_the_newest_records_are_read(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1)
    producer = Producer(cluster.client_config())
    for number in range(5):
        producer.produce(name, str(number))
    assert producer.flush(30) == 0
    for newest, expected in ((2, [b"3", b"4"]), (9, [b"0", b"1", b"2", b"3", b"4"]), (0, [])):
        assert [each.value() for each in read_committed(cluster, name, newest=newest)] == expected


def test_empty_topic_has_no_records(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=2)
    assert list(read_committed(cluster, name)) == []


def test_missing_topic_is_an_error(cluster: Cluster, name: str) -> None:
    with pytest.raises(RequestFailed, match=f"there is no topic {name}"):
        list(read_committed(cluster, name))


def test_reading_may_begin_later_and_need_not_wait_for_open_transactions(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1)
    open_one = Producer(cluster.client_config(**{"transactional.id": name}))
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(name, b"open")
    assert open_one.flush(30) == 0
    plain = Producer(cluster.client_config())
    for value in (b"1", b"2"):
        plain.produce(name, value)
    assert plain.flush(30) == 0
    (partition,) = cluster.partitions(name)
    assert list(read_committed(cluster, name)) == []
    found = read_committed(cluster, name, starts={partition: 2}, isolation="read_uncommitted")
    assert [message.value() for message in found] == [b"2"]
    open_one.abort_transaction(30)
