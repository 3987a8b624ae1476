"""Transactions across the death of their broker: all or nothing, data and offsets together, and nothing hangs."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headrace.log.filesystem import DiskFileSystem
from headrace.log.segment_names import LOG_SUFFIX
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, produce
from tests.broker.transaction_requests import (
    TransactionalProducer,
    committed_values,
    eventually,
    last_stable_offset,
)
from tests.faults.broker_process import BrokerProcess
from tests.faults.transaction_load import (
    PARTITIONS,
    TOPIC,
    Copier,
    NewerCopier,
    check,
    committed,
    figures,
    running,
    wait_for_commits,
)

GROUP = "g"


@pytest.fixture
def killable(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "data")


# Between the steps of one transaction


@pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "KIP-890"])
@pytest.mark.parametrize("fate", ["goes on", "is replaced"])
def test_a_transaction_that_was_open_at_the_kill_continues_or_is_aborted_by_the_next_instance(
    killable: BrokerProcess, is_classic: bool, fate: str
) -> None:
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=2)
            writer = TransactionalProducer(wire, "tx", is_classic=is_classic)
            writer.init()
            writer.write(TOPIC, b"before")
            writer.commit_offsets(GROUP, {(TOPIC, 0): 5})
        killable.kill()
        killable.start()
        with Wire(killable.bootstrap) as wire:
            assert committed_values(wire, TOPIC) == []
            assert committed(wire, GROUP, TOPIC) == -1
            if fate == "goes on":
                writer.wire = wire
                writer.write(TOPIC, b"after", partition=1)
                writer.commit()
                assert committed_values(wire, TOPIC) == [b"before"]
                assert committed_values(wire, TOPIC, partition=1) == [b"after"]
                assert committed(wire, GROUP, TOPIC) == 5
            else:
                TransactionalProducer(wire, "tx").init()
                assert committed_values(wire, TOPIC) == []
                assert last_stable_offset(wire, TOPIC) == 2
                assert committed(wire, GROUP, TOPIC) == -1


def test_a_transaction_that_was_open_at_the_kill_times_out_after_the_start(killable: BrokerProcess) -> None:
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC)
            writer = TransactionalProducer(wire, "tx", timeout_ms=1_000)
            writer.init()
            writer.write(TOPIC, b"a")
        killable.kill()
        killable.start()
        with Wire(killable.bootstrap) as wire:
            assert eventually(lambda: last_stable_offset(wire, TOPIC), 2)
            assert committed_values(wire, TOPIC) == []


def cut_last_batch(folder: Path) -> None:
    """As a power cut would: the last batch of the partition never reached the disk."""
    (segment,) = folder.glob(f"*{LOG_SUFFIX}")
    data = segment.read_bytes()
    position = 0
    starts = []
    while position < len(data):
        starts.append(position)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    segment.write_bytes(data[: starts[-1]])
    for stale in folder.glob("*.snapshot"):
        stale.unlink()
    DiskFileSystem().sync_directory(str(folder))


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_outcome_decided_before_the_kill_is_completed_by_the_start(
    killable: BrokerProcess, is_commit: bool
) -> None:
    """The decision is on disk, the markers of one partition and of the offsets are not."""
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=2)
            writer = TransactionalProducer(wire, "tx")
            writer.init()
            writer.write(TOPIC, b"a")
            writer.write(TOPIC, b"b", partition=1)
            writer.commit_offsets(GROUP, {(TOPIC, 0): 5})
            writer.commit() if is_commit else writer.abort()
        killable.kill()
        data_dir = killable.data_dir
        # The end of the transaction, the marker of partition 1, and the marker of the offsets.
        for lost in ("__transaction_state-0", f"{TOPIC}-1", "__consumer_offsets-0"):
            cut_last_batch(data_dir / lost)
        killable.start()
        with Wire(killable.bootstrap) as wire:
            assert eventually(lambda: last_stable_offset(wire, TOPIC, partition=1), 2)
            assert committed_values(wire, TOPIC, partition=1) == ([b"b"] if is_commit else [])
            assert committed_values(wire, TOPIC) == ([b"a"] if is_commit else [])
            assert eventually(lambda: committed(wire, GROUP, TOPIC), 5 if is_commit else -1)
            assert last_stable_offset(wire, TOPIC) == 2, "it had its marker, and got no second one"
            writer.wire = wire
            writer.write(TOPIC, b"next")
            writer.commit()


def test_data_of_an_unknown_transaction_is_aborted_by_the_start(killable: BrokerProcess) -> None:
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC)
            writer = TransactionalProducer(wire, "tx", is_classic=False)
            writer.init()
            writer.write(TOPIC, b"a")
        killable.kill()
        # The data reached the disk, the record that its partition was added did not.
        cut_last_batch(killable.data_dir / "__transaction_state-0")
        killable.start()
        with Wire(killable.bootstrap) as wire:
            produce(wire, TOPIC, batch(b"plain"))
            assert eventually(lambda: committed_values(wire, TOPIC), [b"plain"])


# At random, under load


@pytest.mark.parametrize("rounds", [3, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_transactions_are_all_or_nothing_when_the_broker_is_killed_at_random_under_load(
    killable: BrokerProcess, rounds: int
) -> None:
    chance = random.Random(rounds)
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=PARTITIONS)
        copiers = [
            *(Copier(bootstrap=killable.bootstrap, name=f"old-{n}", seed=rounds + n) for n in range(3)),
            NewerCopier(bootstrap=killable.bootstrap, name="new", seed=rounds),
        ]
        with running(copiers):
            for _ in range(rounds):
                wait_for_commits(copiers)
                time.sleep(chance.random() * 0.1)
                killable.kill()
                killable.start()
            wait_for_commits(copiers)
        check(killable.bootstrap, copiers)
        print(f"{rounds} kills: {figures(copiers)}")
