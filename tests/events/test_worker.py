from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.events import CommandRejected, CommandSender, CommandWorker, EventsError
from headrace.events import worker as module
from headrace.events.fenced_writer import transactional_id
from headrace.events.partitioner import partition_of
from headrace.events.worker import worker_group
from headrace.kafka.cluster import Cluster, Partition
from tests.events import worker_process
from tests.events.accounts import Account, AccountStore, Break, Command, Deposit, Deposited, Withdraw
from tests.events.conftest import OpenStore

TIMEOUT_S = 60.0


@contextlib.contextmanager
def running(store: AccountStore, **options: int) -> Iterator[CommandWorker]:
    """A worker in a thread; its error is the test's."""
    worker = CommandWorker(store, session_timeout_ms=worker_process.SESSION_TIMEOUT_MS, **options)
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(worker.run)
        try:
            yield worker
        finally:
            worker.stop()
            done.result(TIMEOUT_S)
            worker.close()


@pytest.fixture
def sender(bootstrap: str, topic: str, store: AccountStore) -> Iterator[CommandSender[Command]]:
    with CommandSender(topic, Account(), bootstrap=bootstrap, timeout_s=TIMEOUT_S) as sender:
        yield sender


def test_command_is_handled_and_its_position_committed(
    store: AccountStore, open_store: OpenStore, sender: CommandSender[Command], cluster: Cluster, topic: str
) -> None:
    with running(store):
        assert sender.request("ada", Deposit(amount=10)).version == 1
        assert sender.request("ada", Withdraw(amount=4)).version == 2
    assert open_store().load("ada").state.amount == 6
    assert cluster.committed(worker_group(topic)) == {Partition(f"{topic}.commands", 0): 2}


def test_rejected_and_failed_commands_are_kept_and_block_nothing(
    store: AccountStore, sender: CommandSender[Command]
) -> None:
    with running(store):
        with pytest.raises(CommandRejected, match="the balance is 0"):
            sender.request("ada", Withdraw(amount=1), command_id="c1")
        with pytest.raises(EventsError, match="ZeroDivisionError: a bug"):
            sender.request("ada", Break(), command_id="c2")
        with pytest.raises(CommandRejected, match="not at the expected version 7"):
            sender.request("ada", Deposit(amount=1), command_id="c3", expected_version=7)
        assert sender.request("ada", Deposit(amount=1)).version == 1
    assert [(each.command_id, each.is_error) for each in store.rejected("ada")] == [
        ("c1", False),
        ("c2", True),
        ("c3", False),
    ]


def test_record_that_is_no_command_is_kept(
    store: AccountStore, sender: CommandSender[Command], cluster: Cluster, topic: str
) -> None:
    producer = Producer(cluster.client_config())
    producer.produce(f"{topic}.commands", b"hello", None, partition=0)
    producer.produce(
        f"{topic}.commands", b"{}", "ada", partition=0, headers=[("id", b"c9"), ("type", b"Unheard")]
    )
    assert producer.flush(TIMEOUT_S) == 0
    with running(store):
        assert sender.request("ada", Deposit(amount=1)).version == 1
    (kept,) = (each for each in store.rejected() if not each.aggregate_id)
    assert (kept.command_id, kept.data) == (f"{topic}.commands-0@0", b"hello")
    assert "its key is no aggregate id" in kept.reason
    (unknown,) = store.rejected("ada")
    assert "the command type Unheard is unknown" in unknown.reason


def test_command_in_the_partition_of_another_key_is_kept_and_writes_no_event(
    open_store: OpenStore, bootstrap: str, cluster: Cluster, topic: str
) -> None:
    store = open_store(partitions=2)
    right = partition_of(b"ada", 2)
    with CommandSender(topic, Account(), bootstrap=bootstrap, timeout_s=TIMEOUT_S) as sender:
        producer = Producer(cluster.client_config())
        headers: dict[str, str | bytes | None] = {"id": "c1", "type": "Deposit"}
        for key in ("ada", "x" * 5000):
            producer.produce(f"{topic}.commands", b'{"amount":1}', key, partition=1 - right, headers=headers)
        assert producer.flush(TIMEOUT_S) == 0
        other = next(name for name in "bcdefgh" if partition_of(name.encode(), 2) == 1 - right)
        with running(store):
            sender.request(other, Deposit(amount=1))
    reasons = sorted(each.reason for each in store.rejected())
    assert f"its key belongs to partition {right}" in reasons[0]
    assert "has 5,000 bytes" in reasons[1]
    assert store.aggregate_ids() == [other]


def test_command_that_is_sent_twice_is_handled_once(
    store: AccountStore, sender: CommandSender[Command]
) -> None:
    sender.send("ada", Deposit(amount=5), command_id="c1")
    with running(store):
        again = sender.request("ada", Deposit(amount=5), command_id="c1")
    assert (again.version, again.is_repeated) == (1, True)
    assert store.load("ada").state.amount == 5


def test_batch_that_is_too_large_for_a_transaction_is_split(
    store: AccountStore, sender: CommandSender[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.events.fenced_writer.TRANSACTION_BYTES_MAX", 2_000)
    for _ in range(30):
        sender.send("ada", Deposit(amount=1))
    with running(store):
        assert sender.request("ada", Deposit(amount=1)).version == 31


def test_worker_continues_after_another_process_took_its_partition(
    store: AccountStore,
    open_store: OpenStore,
    sender: CommandSender[Command],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BACK_OFF_S", 0.0)
    other = open_store()
    with running(store), caplog.at_level(logging.WARNING):
        assert sender.request("ada", Deposit(amount=1)).version == 1
        other.append("ada", [Deposited(amount=10)], expected_version=1)
        assert sender.request("ada", Withdraw(amount=11)).version == 3
    assert "are processed again" in caplog.text


def test_partitions_are_shared_by_workers_and_move_when_one_leaves(
    open_store: OpenStore, bootstrap: str, topic: str
) -> None:
    first, second = open_store(partitions=4), open_store()
    names = [f"account-{number}" for number in range(20)]
    with (
        CommandSender(topic, Account(), bootstrap=bootstrap, timeout_s=TIMEOUT_S) as sender,
        running(first) as one,
    ):
        sender.request("account-0", Deposit(amount=1))
        with running(second) as two:
            deadline_s = time.monotonic() + TIMEOUT_S
            while len(two.assigned()) < 2 and time.monotonic() < deadline_s:
                time.sleep(0.05)
            assert len(one.assigned()) == len(two.assigned()) == 2
            for name in names:
                sender.request(name, Deposit(amount=1))
        for name in names:
            sender.request(name, Deposit(amount=1))
    loaded = {name: first.load(name).version for name in names}
    assert loaded == {name: 3 if name == "account-0" else 2 for name in names}


@pytest.mark.timeout(180)
def test_killed_worker_is_replaced_and_every_command_is_handled_once(
    store: AccountStore, open_store: OpenStore, bootstrap: str, topic: str, sender: CommandSender[Command]
) -> None:
    victim = worker_process.start(bootstrap, topic)
    with victim:
        try:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "assigned\n"
            sender.request("ada", Deposit(amount=1), command_id="first")
            for number in range(200):
                sender.send("ada", Deposit(amount=1), command_id=f"c{number}")
                if number == 100:
                    victim.send_signal(signal.SIGKILL)  # in the middle of a batch
        finally:
            victim.kill()
    with running(store):
        assert sender.request("ada", Deposit(amount=0), command_id="last", timeout_s=TIMEOUT_S).version == 201
    events = open_store().events("ada")
    assert [each.version for each in events] == list(range(1, 202))
    causes = Counter(each.causation_id for each in events)
    assert causes == Counter(["first", *(f"c{number}" for number in range(200))])


def test_worker_does_not_wait_for_the_transaction_of_a_killed_one(
    store: AccountStore, bootstrap: str, topic: str, sender: CommandSender[Command]
) -> None:
    """It was killed between the position and the end of its transaction, which the broker ends after a minute."""
    with running(store):
        assert sender.request("ada", Deposit(amount=1)).version == 1
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": worker_group(topic)})
    killed = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id(topic, 0)})
    killed.init_transactions(TIMEOUT_S)
    killed.begin_transaction()
    position = TopicPartition(store.topics.commands, 0, 1)
    killed.send_offsets_to_transaction([position], member.consumer_group_metadata(), TIMEOUT_S)
    with running(store):
        assert sender.request("ada", Deposit(amount=1), timeout_s=30).version == 2
    member.close()
