"""Records and positions in transactions of the log."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from headrace.cdc import publisher as module
from headrace.cdc.envelope import Record
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.publisher import Kept, OpenTransaction, Publisher
from headrace.kafka.cluster import Cluster
from tests.cdc.conftest import committed_records


def record(key: int) -> Record:
    return Record(key=b'{"id":%d}' % key, value=b'{"op":"c"}')


def keys(bootstrap: str, topic: str) -> list[Any]:
    return [key["id"] for key, _ in committed_records(bootstrap, topic)]


def written(publisher: Publisher, topic: str, key: int) -> None:
    publisher.ensure_topic(topic, partitions=1, config={})
    publisher.write(topic, record(key))


def test_records_are_committed_with_the_position(name: str, cluster: Cluster, bootstrap: str) -> None:
    publisher = Publisher(name, cluster)
    assert publisher.kept() is None
    kept = Kept(position={"change": 7}, transaction=OpenTransaction(id="5", counts={"t": 2}))
    written(publisher, f"{name}.t", 1)
    publisher.commit(kept)
    written(publisher, f"{name}.t", 2)
    publisher.close()
    again = Publisher(name, cluster)
    assert again.kept() == kept
    assert keys(bootstrap, f"{name}.t") == [1]
    written(again, f"{name}.t", 3)
    again.commit(Kept(position={"change": 8}))
    assert keys(bootstrap, f"{name}.t") == [1, 3]
    again.close()


def test_earlier_owner_is_fenced(name: str, cluster: Cluster, bootstrap: str) -> None:
    first = Publisher(name, cluster)
    written(first, f"{name}.t", 1)
    first.commit(Kept(position={"change": 1}))
    written(first, f"{name}.t", 2)
    second = Publisher(name, cluster)
    with pytest.raises(BadCapture, match=f"another process has opened it: process {os.getpid()} on"):
        first.commit(Kept(position={"change": 2}))
    kept = second.kept()
    assert kept is not None
    assert kept.position == {"change": 1}
    assert keys(bootstrap, f"{name}.t") == [1]
    first.close()
    second.close()


def test_owner_whose_transaction_timed_out_is_told_so_and_may_open_again(
    name: str, cluster: Cluster, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module._CONFIG, "transaction.timeout.ms", 1_000)
    publisher = Publisher(name, cluster)
    publisher.commit(Kept(position={"change": 1}))
    written(publisher, f"{name}.t", 1)
    publisher._producer.flush(30)
    wait_until_aborted(cluster, f"{name}.t")
    with pytest.raises(SourceUnavailable, match="open for too long"):
        publisher.commit(Kept(position={"change": 2}))
    publisher.close()
    again = Publisher(name, cluster)
    assert again.kept() == Kept(position={"change": 1})
    written(again, f"{name}.t", 2)
    again.commit(Kept(position={"change": 2}))
    assert keys(bootstrap, f"{name}.t") == [2]
    again.close()


def wait_until_aborted(cluster: Cluster, topic: str) -> None:
    """A transaction that has ended hides nothing any more: the last stable offset is the end of the partition."""
    partitions = cluster.partitions(topic)
    deadline_s = time.monotonic() + 60
    while cluster.offsets(
        partitions, OffsetSpec.latest(), isolation=IsolationLevel.READ_COMMITTED
    ) != cluster.latest(partitions):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_open_transaction_of_another_capture_does_not_hide_the_position(name: str, cluster: Cluster) -> None:
    other = Publisher(f"{name}-other", cluster)
    other.write(f"headrace.cdc.{name}-other", record(1))  # never committed
    mine = Publisher(name, cluster)
    mine.commit(Kept(position={"change": 1}))
    mine.close()
    again = Publisher(name, cluster)
    assert again.kept() == Kept(position={"change": 1})
    again.close()
    other.close()


def test_forgotten_position_is_a_new_start(name: str, cluster: Cluster) -> None:
    publisher = Publisher(name, cluster)
    publisher.commit(Kept(position={"change": 1}))
    publisher.commit(None)
    assert publisher.kept() is None
    publisher.close()


def test_record_that_was_rejected_before_the_commit_is_named_by_the_next_write(
    name: str, cluster: Cluster
) -> None:
    publisher = Publisher(name, cluster)
    publisher.ensure_topic(f"{name}.t", partitions=1, config={"max.message.bytes": "10000"})
    publisher.write(f"{name}.t", Record(key=b"1", value=b"x" * 50_000))
    publisher._producer.flush(30)
    with pytest.raises(BadCapture, match=r"(?i)too large|size") as rejected:
        publisher.write(f"{name}.t", Record(key=b"2", value=b"x"))
    assert "max.message.bytes" in rejected.value.hint
    publisher.close()


def test_record_that_is_too_large_for_its_topic_is_an_error_with_the_remedy(
    name: str, cluster: Cluster
) -> None:
    publisher = Publisher(name, cluster)
    publisher.ensure_topic(f"{name}.t", partitions=1, config={"max.message.bytes": "10000"})
    publisher.write(f"{name}.t", Record(key=b"1", value=b"x" * 50_000))
    with pytest.raises(BadCapture, match=r"(?i)too large|size") as rejected:
        publisher.commit(Kept(position={"change": 1}))
    assert "max.message.bytes" in rejected.value.hint
    publisher.close()
