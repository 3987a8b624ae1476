"""Reading a log of numbers, in which the writer of the tests of `fenced_log` is not alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from headrace.events import EventsError
from headrace.kafka.cluster import Cluster, Partition
from tests.events.test_fenced_log import TIMEOUT_S, NumberLog

OpenLog = Callable[[str], NumberLog]


@pytest.fixture
def open_log(cluster: Cluster, topic: str) -> Iterator[OpenLog]:
    cluster.create_topic(topic, partitions=1)
    opened: list[NumberLog] = []

    def open_log(writer: str) -> NumberLog:
        opened.append(NumberLog(cluster, topic, writer))
        return opened[-1]

    yield open_log
    for log in opened:
        log.close()


def test_records_of_another_program_in_between_are_read(
    open_log: OpenLog, cluster: Cluster, topic: str
) -> None:
    log = open_log("a")
    log.append()
    producer = Producer(cluster.client_config())
    producer.produce(topic, "1", "other", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    log.append()
    log.refresh()
    assert [number for number, _ in log.numbers] == [0, 1]


def test_record_of_another_program_right_after_a_commit_is_read(
    open_log: OpenLog, cluster: Cluster, topic: str
) -> None:
    """It may come before the marker of the commit, which the broker writes a moment later."""
    log = open_log("a")
    producer = Producer(cluster.client_config(linger_ms=0))
    producer.produce(topic, "1000", "other", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    for number in range(20):
        log.append()
        producer.produce(topic, str(2000 + number), "other", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        log.refresh()
        assert (2000 + number, "other") in log.numbers


def test_open_transaction_of_a_killed_writer_does_not_block_readers(
    open_log: OpenLog, cluster: Cluster, topic: str
) -> None:
    log = open_log("a")
    log.append()
    killed = Producer(cluster.client_config(transactional_id=f"{topic}-killed"))
    killed.init_transactions(TIMEOUT_S)
    killed.begin_transaction()
    killed.produce(topic, "99", "killed", partition=0)
    killed.flush(TIMEOUT_S)
    reader = open_log("b")
    reader.refresh()
    assert reader.numbers == [(0, "a")]
    killed.abort_transaction(TIMEOUT_S)


def test_log_whose_start_is_deleted_is_rejected(open_log: OpenLog, cluster: Cluster, topic: str) -> None:
    log = open_log("a")
    log.append()
    log.append()
    cluster.delete_records({Partition(topic, 0): 2})
    with pytest.raises(EventsError, match="before offset 2 are deleted"):
        open_log("b").append()
