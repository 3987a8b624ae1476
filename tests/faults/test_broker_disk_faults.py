"""A disk that fails under a running broker: no acknowledgement of lost records, and all else continues."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.server import Server
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.wire import Wire
from tests.broker import group_requests
from tests.broker.requests import (
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    new_producer_id,
    only_partition,
    produce,
    produce_request,
    read_all,
    values_of,
)
from tests.broker.transaction_requests import TransactionalProducer, eventually
from tests.faults import transaction_load as load
from tests.faults.faulty_broker import GATE_TIMEOUT_S, GatedFileSystem, Unreadable, broker_on


@pytest.fixture
def files() -> FailingFileSystem:
    return FailingFileSystem()


@pytest.fixture(params=["fsync", "os"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(files: FailingFileSystem, tmp_path: Path, durability: str) -> Iterator[Server]:
    with broker_on(files, tmp_path / "data", durability=durability) as running:
        yield running


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.bootstrap) as connection:
        create_topic(connection, "t", partitions=2, segment_bytes="2000")
        yield connection


@pytest.mark.parametrize("bytes_written_first", [0, 1, 30])
def test_full_disk_rejects_writes_serves_reads_and_continues_when_there_is_room(
    files: FailingFileSystem, wire: Wire, bytes_written_first: int
) -> None:
    produce(wire, "t", batch(b"before"))
    full = files.fail(
        "write",
        "*/t-0/*.log",
        error_number=errno.ENOSPC,
        times=None,
        bytes_written_first=bytes_written_first,
    )
    for _ in range(3):
        rejected = produce(wire, "t", batch(b"no room"))
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left" in (rejected.error_message or "")
    assert full.happened == 3
    assert values_of(fetch(wire, "t")) == [b"before"]
    assert produce(wire, "t", batch(b"elsewhere"), partition=1).base_offset == 0
    files.heal()
    assert produce(wire, "t", batch(b"after")).base_offset == 1
    assert values_of(fetch(wire, "t")) == [b"before", b"after"]


def test_sequence_of_a_producer_continues_after_the_full_disk(files: FailingFileSystem, wire: Wire) -> None:
    producer_id = new_producer_id(wire)

    def send(sequence: int) -> int:
        one = batch(b"%d" % sequence, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return produce(wire, "t", one).error_code

    assert send(0) == 0
    files.fail("write", "*/t-0/*.log", error_number=errno.ENOSPC)
    assert [send(1), send(2)] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]
    assert [send(1), send(2)] == [0, 0]
    assert values_of(fetch(wire, "t")) == [b"0", b"1", b"2"]


def test_segment_that_cannot_be_created_rejects_writes_until_it_can(
    files: FailingFileSystem, wire: Wire
) -> None:
    produce(wire, "t", batch(b"x" * 1500))
    files.fail("create", "*/t-0/*", error_number=errno.ENOSPC, times=2)
    codes = [produce(wire, "t", batch(b"y" * 1500)).error_code for _ in range(3)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert [len(record.value or b"") for record in read_all(wire, "t")] == [1500, 1500]


def test_full_disk_in_one_partition_spoils_no_other_of_the_same_request(
    files: FailingFileSystem, wire: Wire
) -> None:
    files.fail("write", "*/t-0/*.log", error_number=errno.ENOSPC)
    data = tuple(PartitionProduceData(index=index, records=batch(b"x")) for index in (0, 1))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name="t", partition_data=data),)
    )
    (answer,) = wire.request(request, version=PRODUCE_BY_NAME).responses
    codes = [part.error_code for part in answer.partition_responses]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_topic_that_cannot_be_created_is_an_error_and_can_be_created_later(
    files: FailingFileSystem, wire: Wire
) -> None:
    wanted = CreateTopicsRequest(topics=(CreatableTopic(name="late", num_partitions=3),))
    files.fail("create", "*/late-2/*", error_number=errno.ENOSPC)
    (rejected,) = wire.request(wanted).topics
    assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(wire, "late", batch(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (made,) = wire.request(wanted).topics
    assert made.error_code == 0
    assert produce(wire, "late", batch(b"x"), partition=2).base_offset == 0


def test_failed_read_is_an_error_for_the_consumer_and_later_reads_work(
    files: FailingFileSystem, wire: Wire
) -> None:
    produce(wire, "t", batch(b"a"))
    files.fail("read", "*/t-0/*.log", times=1)
    assert fetch(wire, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values_of(fetch(wire, "t")) == [b"a"]


@pytest.mark.parametrize("durability", ["fsync"], indirect=True)
def test_failed_fsync_is_no_acknowledgement_and_makes_that_partition_read_only(
    files: FailingFileSystem, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    produce(wire, "t", batch(b"before"))
    failure = files.fail("sync", "*/t-0/*.log", times=None)
    assert produce(wire, "t", batch(b"lost?")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    for _ in range(3):
        assert produce(wire, "t", batch(b"more")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert failure.happened == 1
    # What was acknowledged is served; what was not is not.
    assert values_of(fetch(wire, "t")) == [b"before"]
    assert end_offset(wire, "t") == 1
    assert produce(wire, "t", batch(b"other"), partition=1).base_offset == 0
    assert "fsync failed, partition is read-only" in caplog.text


@pytest.mark.parametrize("acks", [-1, 1])
def test_failed_fsync_fails_everyone_who_waits_and_is_never_tried_again(tmp_path: Path, acks: int) -> None:
    """Requests that came while the fsync ran wait for the next one, which would claim what the first one lost."""
    files = GatedFileSystem()
    with (
        broker_on(files, tmp_path / "data", checkpoint_interval_ms=100) as server,
        Wire(server.bootstrap) as wire,
    ):
        create_topic(wire, "t", partitions=2)
        files.gate.clear()
        files.waiting.clear()
        files.failing = 1
        for number in range(10):
            wire.send(produce_request("t", batch(b"%d" % number), acks=acks), version=PRODUCE_BY_NAME)
        assert files.waiting.wait(GATE_TIMEOUT_S)
        with Wire(server.bootstrap) as other:
            # All ten have been taken in by the time that a later request on the same connection took effect.
            wire.send(CreateTopicsRequest(topics=(CreatableTopic(name="marker", num_partitions=1),)))
            while produce(other, "marker", b"").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                pass
        files.syncs = 0
        files.gate.set()
        codes = [only_partition(wire.receive()).error_code for _ in range(10)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 10
        wire.receive()
        assert produce(wire, "t", batch(b"x"), partition=1).error_code == 0
        assert end_offset(wire, "t") == 0
        # One failed, one of the other partition; the checkpoints leave the failed one alone.
        assert files.syncs == 2


def test_many_requests_share_one_fsync(tmp_path: Path) -> None:
    files = GatedFileSystem()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        files.gate.clear()
        for number in range(50):
            wire.send(produce_request("t", batch(b"%d" % number)), version=PRODUCE_BY_NAME)
        assert not wire.has_response(within_s=0.2), "nothing is acknowledged before the fsync"
        with Wire(server.bootstrap) as reader:
            assert values_of(fetch(reader, "t")) == [], "nor can it be read"
        files.syncs = 0
        files.gate.set()
        assert [only_partition(wire.receive()).base_offset for _ in range(50)] == list(range(50))
        assert files.syncs <= 3


def test_slow_fsync_of_one_partition_holds_up_no_other(tmp_path: Path) -> None:
    files = GatedFileSystem()
    with (
        broker_on(files, tmp_path / "data") as server,
        Wire(server.bootstrap) as slow,
        Wire(server.bootstrap) as quick,
    ):
        create_topic(quick, "t", partitions=2)
        files.waiting.clear()
        files.gate.clear()
        slow.send(produce_request("t", batch(b"slow")), version=PRODUCE_BY_NAME)
        assert files.waiting.wait(GATE_TIMEOUT_S)
        # The one that waits keeps its gate; later ones find another, open one.
        closed, files.gate = files.gate, threading.Event()
        files.gate.set()
        for number in range(10):
            assert produce(quick, "t", batch(b"quick"), partition=1).base_offset == number
        assert not slow.has_response(within_s=0.05)
        closed.set()
        assert only_partition(slow.receive()).base_offset == 0


def test_broker_that_stopped_with_a_failed_partition_recovers_it_at_the_next_start(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        produce(wire, "t", batch(b"before"))
        files.fail("sync", "*/t-0/*.log", times=1)
        assert produce(wire, "t", batch(b"lost?")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "that was no clean stop"
    with broker_on(FailingFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        found = [record.value for record in read_all(wire, "t")]
        assert found in ([b"before"], [b"before", b"lost?"]), "what was not acknowledged may be there or not"
        assert produce(wire, "t", batch(b"after")).base_offset == len(found)


def test_command_reports_a_read_only_partition_instead_of_waiting(tmp_path: Path) -> None:
    files = GatedFileSystem()
    with broker_on(files, tmp_path / "data", durability="fsync") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        files.failing = 1
        assert produce(wire, "t", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        command = [sys.executable, "-m", "headrace"]
        rejected = subprocess.run(
            [*command, "produce", "t", "--bootstrap", server.bootstrap],
            input="y\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert rejected.returncode == 1
        assert "not delivered: partition 0 of t is read-only: fsync failed" in rejected.stderr
        assert "timed out" not in rejected.stderr
        described = subprocess.run(
            [*command, "topic", "describe", "t", "--bootstrap", server.bootstrap],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "partition 0 is read-only: fsync failed" in described.stdout


@pytest.mark.parametrize("durability", ["fsync"], indirect=True)
def test_record_of_a_transaction_is_not_acknowledged_if_only_the_transaction_could_not_be_synced(
    files: FailingFileSystem, wire: Wire
) -> None:
    """From Produce 12 on, the first write adds its partition to the transaction."""
    producer = TransactionalProducer(wire, "tx", is_classic=False)
    producer.init()
    files.fail("sync", "*/__transaction_state-0/*.log", times=None)
    first = producer.send("t", b"a")
    assert first.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "__transaction_state-0" in (first.error_message or "")
    assert producer.send("t", b"b").error_code == ErrorCode.KAFKA_STORAGE_ERROR, "nor one after it"


def test_offsets_of_a_topic_that_is_deleted_on_a_full_disk_are_removed_when_there_is_room(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        assert group_requests.commit(wire, "g", "t", 5) == 0
        full = files.fail("write", "*/__consumer_offsets-0/*.log", error_number=errno.ENOSPC, times=None)
        delete_topic(wire, "t")
        create_topic(wire, "t")
        assert group_requests.committed(wire, "g", "t") == -1, (
            "nothing of the old topic counts for the new one"
        )
        assert eventually(lambda: full.happened > 0, True)
        offsets = server.parts.topics.partition("__consumer_offsets", 0)
        assert offsets is not None
        rejected_at = offsets.log.end_offset
        files.heal()
        assert eventually(lambda: offsets.log.end_offset, rejected_at + 1)
    with broker_on(FailingFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        assert load.committed(wire, "g", "t") == -1


def test_offsets_that_could_not_be_read_at_the_start_are_read_again(tmp_path: Path) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        assert group_requests.commit(wire, "g", "t", 5) == 0
    files = Unreadable(pattern="*/__consumer_offsets-0/*.log", failing=2)
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        assert eventually(lambda: files.failing, 0)
        assert load.committed(wire, "g", "t") == 5
