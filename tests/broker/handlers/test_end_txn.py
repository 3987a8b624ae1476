"""EndTxn over the wire, with what it does to readers; the rules themselves are tested in transactions/test_rules.py."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import (
    create_topic,
    delete_topic,
    fetch,
    fetch_request,
    new_name,
    only_partition,
    values_of,
)
from tests.broker.transaction_requests import (
    READ_COMMITTED,
    TransactionalProducer,
    committed_values,
    eventually,
    last_stable_offset,
)

BOTH_WAYS = pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "KIP-890"])


def producer(wire: Wire, *, is_classic: bool = True, **options: int) -> TransactionalProducer:
    made = TransactionalProducer(wire, new_name("tx"), is_classic=is_classic, **options)
    assert made.init().error_code == 0
    return made


@BOTH_WAYS
def test_readers_of_committed_data_get_a_transaction_whole_after_its_commit(
    any_wire: Wire, any_topic: str, is_classic: bool
) -> None:
    writer = producer(any_wire, is_classic=is_classic)
    writer.write(any_topic, b"a", b"b")
    writer.write(any_topic, b"c", partition=1)
    assert committed_values(any_wire, any_topic) == []
    assert last_stable_offset(any_wire, any_topic) == 0
    assert values_of(fetch(any_wire, any_topic)) == [b"a", b"b"]
    writer.commit()
    assert eventually(lambda: committed_values(any_wire, any_topic), [b"a", b"b"])
    assert eventually(lambda: committed_values(any_wire, any_topic, partition=1), [b"c"])


@BOTH_WAYS
def test_aborted_transaction_is_never_visible_and_the_next_one_is(
    any_wire: Wire, any_topic: str, is_classic: bool
) -> None:
    writer = producer(any_wire, is_classic=is_classic)
    writer.write(any_topic, b"aborted")
    writer.abort()
    writer.write(any_topic, b"kept")
    writer.commit()
    assert eventually(lambda: committed_values(any_wire, any_topic), [b"kept"])


def test_open_transaction_delays_only_readers_of_committed_data(any_wire: Wire, any_topic: str) -> None:
    slow, quick = producer(any_wire), producer(any_wire, is_classic=False)
    slow.write(any_topic, b"slow")
    quick.write(any_topic, b"quick")
    quick.commit()
    assert committed_values(any_wire, any_topic) == []
    slow.commit()
    assert eventually(lambda: committed_values(any_wire, any_topic), [b"slow", b"quick"])


def test_the_latest_offset_for_readers_of_committed_data_is_the_last_stable_one(
    any_wire: Wire, any_topic: str
) -> None:
    def latest(isolation_level: int) -> int:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=(ListOffsetsTopic(name=any_topic, partitions=(wanted,)),),
        )
        offset: int = any_wire.request(request, version=4).topics[0].partitions[0].offset
        return offset

    writer = producer(any_wire)
    writer.write(any_topic, b"a", b"b")
    assert (latest(0), latest(READ_COMMITTED)) == (2, 0)
    writer.commit()
    assert eventually(lambda: (latest(0), latest(READ_COMMITTED)), (3, 3))


@BOTH_WAYS
def test_a_waiting_reader_of_committed_data_is_woken_by_the_commit_and_not_by_the_data(
    any_wire: Wire, any_topic: str, connect: Connect, bootstrap: str, is_classic: bool
) -> None:
    reader = connect(bootstrap)
    reader.send(fetch_request(any_topic, max_wait_ms=20_000, isolation_level=READ_COMMITTED), version=12)
    writer = producer(any_wire, is_classic=is_classic)
    writer.write(any_topic, b"a")
    assert not reader.has_response(within_s=0.2)
    writer.commit()
    assert reader.has_response(within_s=10)
    assert values_of(only_partition(reader.receive()))[:1] == [b"a"]


@BOTH_WAYS
def test_repeated_end_gets_the_same_response(any_wire: Wire, any_topic: str, is_classic: bool) -> None:
    writer = producer(any_wire, is_classic=is_classic)
    writer.write(any_topic, b"a")
    first = writer.end(committed=True)
    again = writer.end(committed=True)
    assert (first.error_code, again.error_code) == (0, 0)
    assert (first.producer_id, first.producer_epoch) == (again.producer_id, again.producer_epoch)
    assert writer.end(committed=False).error_code == ErrorCode.INVALID_TXN_STATE


def test_every_transaction_has_its_own_epoch_since_version_5(any_wire: Wire, any_topic: str) -> None:
    writer = producer(any_wire, is_classic=False)
    epochs = []
    for end in (writer.commit, writer.abort, writer.commit):
        epochs.append(writer.epoch)
        writer.write(any_topic, b"a")
        end()
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]


@BOTH_WAYS
def test_a_commit_of_an_old_epoch_is_rejected(any_wire: Wire, any_topic: str, is_classic: bool) -> None:
    old = producer(any_wire, is_classic=is_classic)
    old.write(any_topic, b"old")
    new = TransactionalProducer(any_wire, old.transactional_id, is_classic=is_classic)
    assert new.init().error_code == 0
    new.write(any_topic, b"new")
    assert old.end(committed=True).error_code == ErrorCode.PRODUCER_FENCED
    if is_classic:
        assert old.end(committed=True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.send(any_topic, b"late").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    new.commit()
    assert eventually(lambda: committed_values(any_wire, any_topic), [b"new"])


def test_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    any_wire: Wire, any_topic: str
) -> None:
    # Kafka looks for transactions past their timeout every ten seconds, so its response takes that long.
    writer = producer(any_wire, timeout_ms=150)
    writer.write(any_topic, b"late")
    other = producer(any_wire)
    other.write(any_topic, b"in time")
    other.commit()
    response = fetch(any_wire, any_topic, 0, isolation_level=READ_COMMITTED, max_wait_ms=20_000, min_bytes=1)
    assert response.records
    assert eventually(lambda: committed_values(any_wire, any_topic), [b"in time"])
    assert writer.end(committed=True).error_code == ErrorCode.PRODUCER_FENCED


def test_empty_transaction_with_epoch_bumps_is_aborted_but_not_committed(any_wire: Wire) -> None:
    writer = producer(any_wire, is_classic=False)
    assert writer.end(committed=True).error_code == ErrorCode.INVALID_TXN_STATE
    before = writer.epoch
    writer.abort()
    assert writer.epoch == before + 1


def test_marker_of_an_unknown_producer_is_rejected(any_wire: Wire) -> None:
    known = producer(any_wire)
    stranger = TransactionalProducer(any_wire, new_name("tx"))
    stranger.use(known.producer_id, known.epoch)
    assert stranger.end(committed=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_transaction_with_a_deleted_topic_ends(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker())
    create_topic(wire, "stays")
    create_topic(wire, "goes")
    writer = producer(wire)
    writer.write("stays", b"a")
    writer.write("goes", b"b")
    delete_topic(wire, "goes")
    writer.commit()
    assert eventually(lambda: committed_values(wire, "stays"), [b"a"])
