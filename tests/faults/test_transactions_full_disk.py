"""Transactions on a disk that is full for a while: when there is room again, all of them end, without a restart."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

from headrace.broker.server import Server
from headrace.broker.transactions.state import TransactionState
from headrace.log.filesystem import Buffer
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.testing.failing_filesystem import FailingFileSystem, Failure
from headrace.testing.wire import Wire
from tests.broker import group_requests
from tests.broker.requests import create_topic, end_offset
from tests.broker.transaction_requests import (
    TransactionalProducer,
    committed_values,
    eventually,
    last_stable_offset,
)
from tests.faults.broker_process import BrokerProcess
from tests.faults.faulty_broker import Unreadable, broker_on
from tests.faults.test_transactions_killed import cut_last_batch
from tests.faults.transaction_load import (
    PARTITIONS,
    TOPIC,
    Copier,
    Forgetful,
    NewerCopier,
    check,
    figures,
    running,
    wait_for_commits,
)

TRANSACTIONS_LOG = "*/__transaction_state-0/*.log"


@pytest.fixture
def files() -> FailingFileSystem:
    return FailingFileSystem()


@pytest.fixture
def server(files: FailingFileSystem, tmp_path: Path) -> Iterator[Server]:
    with broker_on(files, tmp_path / "data") as running:
        yield running


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.bootstrap) as connection:
        create_topic(connection, "t", partitions=2)
        yield connection


def works(wire: Wire, transactional_id: str) -> bool:
    """Whether an id takes a new instance and a transaction of it."""
    producer = TransactionalProducer(wire, transactional_id)
    assert producer.init().error_code == 0
    producer.write("t", b"works")
    producer.commit()
    return eventually(lambda: last_stable_offset(wire, "t"), end_offset(wire, "t"))


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(
    ("path", "skip"),
    [("*/t-1/*.log", 0), ("*/__consumer_offsets-0/*.log", 0), (TRANSACTIONS_LOG, 1)],
    ids=["marker", "marker of offsets", "end"],
)
def test_a_decided_transaction_ends_when_there_is_room(
    files: FailingFileSystem, wire: Wire, path: str, skip: int, is_commit: bool
) -> None:
    producer = TransactionalProducer(wire, "tx")
    producer.init()
    producer.write("t", b"a")
    producer.write("t", b"b", partition=1)
    producer.commit_offsets("g", {("t", 0): 7})
    full = files.fail("write", path, error_number=errno.ENOSPC, times=None, skip=skip)
    assert producer.end(committed=is_commit).error_code == 0, "it is decided"
    assert full.happened
    busy = wire.request(InitProducerIdRequest(transactional_id="tx"))
    assert busy.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    files.heal()
    assert eventually(lambda: last_stable_offset(wire, "t", partition=1), 2)
    assert committed_values(wire, "t", partition=1) == ([b"b"] if is_commit else [])
    assert eventually(lambda: group_requests.committed(wire, "g", "t"), 7 if is_commit else -1)
    assert works(wire, "tx")


def test_a_commit_that_the_full_disk_rejects_can_be_retried(files: FailingFileSystem, wire: Wire) -> None:
    producer = TransactionalProducer(wire, "tx")
    producer.init()
    producer.write("t", b"a")
    files.fail("write", TRANSACTIONS_LOG, error_number=errno.ENOSPC, times=None)
    request = EndTxnRequest(
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    assert wire.request(request, version=4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    files.heal()
    producer.commit()
    assert committed_values(wire, "t") == [b"a"]


def test_a_transaction_whose_time_is_up_on_a_full_disk_is_aborted_when_there_is_room(
    files: FailingFileSystem, server: Server, wire: Wire
) -> None:
    producer = TransactionalProducer(wire, "tx", timeout_ms=50)
    producer.init()
    producer.write("t", b"a")
    full = files.fail("write", TRANSACTIONS_LOG, error_number=errno.ENOSPC, times=None)
    assert eventually(lambda: full.happened > 0, True)
    assert server.parts.transactions.counters.timed_out == 0
    files.heal()
    assert eventually(lambda: last_stable_offset(wire, "t"), 2)
    assert committed_values(wire, "t") == []
    assert server.parts.transactions.counters.timed_out == 1
    assert works(wire, "tx")


def test_transactions_that_could_not_be_read_at_the_start_are_read_again(tmp_path: Path) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        producer = TransactionalProducer(wire, "tx")
        producer.init()
        producer.write("t", b"a")
    files = Unreadable(pattern=TRANSACTIONS_LOG, failing=3)
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        producer.wire = wire
        producer.commit()
        assert files.failing == 0
        assert committed_values(wire, "t") == [b"a"]


class Buggy(FailingFileSystem):
    """Raises what no code expects of a file system."""

    bugs: int = 0
    pattern: str = ""

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        if self.bugs and fnmatch(self._paths[fd], self.pattern):
            self.bugs -= 1
            raise RuntimeError("a bug")
        super().write(fd, parts, position)


@pytest.mark.parametrize("pattern", ["*/t-0/*.log", TRANSACTIONS_LOG], ids=["marker", "abort"])
def test_an_unexpected_failure_is_reported_and_the_work_continues(
    tmp_path: Path, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = Buggy()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        producer = TransactionalProducer(wire, "tx", timeout_ms=50)
        producer.init()
        producer.write("t", b"a")
        files.pattern, files.bugs = pattern, 1
        assert eventually(lambda: last_stable_offset(wire, "t"), 2)
        assert files.bugs == 0
        assert "a bug" in caplog.text
        assert server.parts.runtime.failures.count
        assert works(wire, "tx")


def test_a_new_id_on_a_full_disk_is_rejected_and_works_when_there_is_room(
    files: FailingFileSystem, wire: Wire
) -> None:
    files.fail("*", error_number=errno.ENOSPC, times=None)
    for transactional_id, code in (
        ("tx", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ):
        rejected = wire.request(InitProducerIdRequest(transactional_id=transactional_id))
        assert rejected.error_code == code, "both are errors after which clients retry"
    files.heal()
    assert works(wire, "tx")


class Crowded(FailingFileSystem):
    """Too few file descriptors for some folders to be opened."""

    failing: int = 0

    def open_directory(self, path: str) -> int:
        if self.failing:
            self.failing -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open_directory(path)


def test_a_marker_that_was_written_and_not_flushed_is_flushed_before_the_end_is_stored(
    tmp_path: Path,
) -> None:
    files = Crowded()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", segment_bytes="2000")
        producer = TransactionalProducer(wire, "tx")
        producer.init()
        producer.write("t", b"x" * 1_900)
        files.failing = 2  # the marker starts a segment, whose folder the flush has to open
        producer.commit()
        coordinator = server.parts.transactions

        def state() -> TransactionState | None:
            transaction = coordinator.transaction("tx")
            return None if transaction is None else transaction.state

        assert eventually(state, TransactionState.COMPLETE_COMMIT)
        assert files.failing == 0
        partition = server.parts.topics.partition("t", 0)
        assert partition is not None
        assert partition.log.durable_offset == partition.log.end_offset == 2


def test_unknown_open_transactions_are_aborted_after_the_start_when_there_is_room(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "data") as killed, Wire(killed.bootstrap) as wire:
        create_topic(wire, "t", partitions=2)
        producer = TransactionalProducer(wire, "tx", is_classic=False)
        producer.init()
        producer.write("t", b"a")
        killed.kill()
    # The data reached the disk, the record that its partition was added did not.
    cut_last_batch(tmp_path / "data" / "__transaction_state-0")
    full = files.fail("write", "*/t-0/*.log", error_number=errno.ENOSPC, times=None)
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        assert eventually(lambda: full.happened > 0, True)
        producer.wire = wire
        producer.write("t", b"other", partition=1)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=(0,)),),
        )
        (topic,) = wire.request(request, version=3).results_by_topic_v3_and_below
        (busy,) = topic.results_by_partition
        assert busy.partition_error_code == ErrorCode.CONCURRENT_TRANSACTIONS, (
            "the aborted batch would become part of this transaction"
        )
        files.heal()
        assert eventually(lambda: last_stable_offset(wire, "t"), 2)
        producer._sequences["t", 0] = 0
        again = producer.send("t", b"a")
        assert again.error_code == ErrorCode.INVALID_PRODUCER_EPOCH, "a retry must not be taken for stored"
        producer.abort()
        producer.write("t", b"again")
        producer.commit()
        assert committed_values(wire, "t") == [b"again"]
        assert committed_values(wire, "t", partition=1) == []


# Under load


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_transactions_are_all_or_nothing_and_end_when_the_disk_is_full_again_and_again(
    files: FailingFileSystem, tmp_path: Path, rounds: int
) -> None:
    chance = random.Random(rounds)
    with broker_on(files, tmp_path / "data") as server:
        with Wire(server.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=PARTITIONS, segment_bytes="20000")
        copiers = [
            kind(bootstrap=server.bootstrap, name=f"{kind.__name__}-{number}", seed=number)
            for kind in (Copier, NewerCopier)
            for number in range(2)
        ]
        forgetful = Forgetful(bootstrap=server.bootstrap, name="forgetful", seed=0)
        rejected = 0
        with running([*copiers, forgetful]):
            for _ in range(rounds):
                wait_for_commits(copiers)
                full = fill(files, chance)
                time.sleep(chance.random() * 0.4)
                files.heal()
                rejected += sum(failure.happened for failure in full)
            wait_for_commits(copiers)
        check(server.bootstrap, copiers, [forgetful])
        assert rejected, "otherwise this shows nothing"
        print(f"{rounds} full disks, {rejected} rejected writes: {figures(copiers)}")


def fill(files: FailingFileSystem, chance: random.Random) -> list[Failure]:
    """No room in all files, or in those that are to grow next."""
    pattern = chance.choice(["*", "*/__transaction_state-0/*", f"*/{TOPIC}-*", "*/__consumer_offsets-0/*"])
    return [
        files.fail(
            operation,
            pattern,
            error_number=errno.ENOSPC,
            times=None,
            bytes_written_first=chance.choice([0, 17]),
        )
        for operation in ("write", "create", "write_whole")
    ]
