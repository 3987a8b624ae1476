"""The metrics of transactions and groups; others are tested beside their modules."""

from __future__ import annotations

from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.consumer_group_requests import member
from tests.broker.group_requests import commit, stable_member
from tests.broker.observing import eventually, metrics
from tests.broker.requests import batch, create_topic, fetch, produce
from tests.broker.transaction_requests import TransactionalProducer


def delete_records(wire: Wire, topic: str, *, partition: int, before: int) -> None:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=before)
    wire.request(DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(wanted,)),)))


def open_transaction(wire: Wire, name: str, *, timeout_ms: int = 60_000) -> TransactionalProducer:
    producer = TransactionalProducer(wire, name, timeout_ms=timeout_ms)
    assert producer.init().error_code == 0
    assert producer.add("t") == [0]
    return producer


def test_bytes_of_batches_are_counted(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    one = batch(b"x" * 1000)
    for _ in range(3):
        produce(wire, "t", one)
    fetch(wire, "t")
    counted = metrics(broker)
    assert counted["headrace_produced_bytes_total"] == 3 * len(one)
    assert counted["headrace_fetched_bytes_total"] == 3 * len(one)
    assert counted["headrace_storage_failures_total"] == 0


def test_transactions_are_counted_by_how_they_end(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    open_transaction(wire, "commits").commit()
    open_transaction(wire, "aborts").abort()
    open_transaction(wire, "forgets", timeout_ms=1)
    open_transaction(wire, "works")
    eventually(lambda: metrics(broker)["headrace_transactions_aborted_total"] == 2, "the time-out")
    found = metrics(broker)
    assert found["headrace_transactions_committed_total"] == 1
    assert found["headrace_transactions_timed_out_total"] == 1
    assert found["headrace_transactions_open"] == 1
    assert found["headrace_transactions_oldest_open_seconds"] >= 0
    assert found["headrace_transactional_ids"] == 4


def test_groups_of_both_protocols_have_members_and_lag(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    produce(wire, "t", batch(b"1", b"2", b"3"))
    classic = stable_member(wire, "c", "t")
    member(wire, "n", "m", "t")
    commit(wire, "tool", "t", 1)
    found = metrics(broker)
    assert found['headrace_group_members{group="c",protocol="classic"}'] == 1
    assert found['headrace_group_epoch{group="c",protocol="classic"}'] == classic.generation
    assert found['headrace_group_members{group="n",protocol="consumer"}'] == 1
    assert found['headrace_group_lag{group="c",protocol="classic"}'] == 3
    assert found['headrace_group_lag{group="n",protocol="consumer"}'] == 3
    assert found['headrace_group_lag{group="tool",protocol="classic"}'] == 2


def test_partition_without_a_commit_lags_from_its_start(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t", partitions=3)
    for partition in range(3):
        produce(wire, "t", batch(b"1", b"2", b"3"), partition=partition)
    delete_records(wire, "t", partition=2, before=2)
    commit(wire, "g", "t", 2, partition=0)
    assert metrics(broker)['headrace_group_lag{group="g",protocol="classic"}'] == 1 + 3 + 1
    # What was committed may lie before what retention has left.
    delete_records(wire, "t", partition=0, before=3)
    assert metrics(broker)['headrace_group_lag{group="g",protocol="classic"}'] == 0 + 3 + 1
