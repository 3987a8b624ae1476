from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.events import CommandSender, InvalidEvent, NoReply, StoreUnavailable
from headrace.events import sender as module
from headrace.events.partition_reader import PartitionReader
from headrace.events.records import InRecord
from headrace.kafka.cluster import Cluster, Partition
from headrace.testing.ports import free_ports
from tests.events.accounts import Account, AccountStore, Command, Deposit, Deposited
from tests.events.test_worker import running

TIMEOUT_S = 30.0


@pytest.fixture
def sender(bootstrap: str, topic: str, store: AccountStore) -> Iterator[CommandSender[Command]]:
    with CommandSender(topic, Account(), bootstrap=bootstrap, timeout_s=TIMEOUT_S) as sender:
        yield sender


def sent(cluster: Cluster, topic: str) -> list[InRecord]:
    partition = Partition(f"{topic}.commands", 0)
    reader = PartitionReader(cluster.client_config(), timeout_s=TIMEOUT_S)
    found = list(reader.read({partition: (0, cluster.latest([partition])[partition])}))
    reader.close()
    return found


def test_command_is_stored_under_its_aggregate(
    sender: CommandSender[Command], cluster: Cluster, topic: str
) -> None:
    command_id = sender.send("ada", Deposit(amount=3), correlation_id="order-7", expected_version=0)
    (record,) = sent(cluster, topic)
    assert (record.key, record.value) == (b"ada", b'{"amount":3}')
    assert record.headers == {
        "type": b"Deposit",
        "id": command_id.encode(),
        "correlation-id": b"order-7",
        "expected-version": b"0",
    }


def test_each_thread_gets_the_reply_to_its_own_command(
    sender: CommandSender[Command], store: AccountStore
) -> None:
    def request(number: int) -> tuple[str, int]:
        reply = sender.request(f"account-{number}", Deposit(amount=number + 1))
        return reply.aggregate_id, reply.version

    with running(store), ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(request, range(40)))
    assert replies == [(f"account-{number}", 1) for number in range(40)]


def test_without_a_worker_there_is_no_reply_and_a_repetition_gets_it(
    sender: CommandSender[Command], store: AccountStore
) -> None:
    with pytest.raises(NoReply, match="no reply to command c1 of ada"):
        sender.request("ada", Deposit(amount=1), command_id="c1", timeout_s=0.2)
    with running(store):
        assert sender.request("ada", Deposit(amount=1), command_id="c1").version == 1
    assert store.load("ada").version == 1


def test_commands_without_a_reply_have_a_bound(
    sender: CommandSender[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 0)
    with pytest.raises(NoReply, match="wait for a reply"):
        sender.request("ada", Deposit(amount=1))


def test_bad_command_is_not_sent(sender: CommandSender[Command], cluster: Cluster, topic: str) -> None:
    with pytest.raises(InvalidEvent):
        sender.send("", Deposit(amount=1))
    with pytest.raises(InvalidEvent):
        sender.send("ada", Deposited(amount=1))  # type: ignore[arg-type]
    assert sent(cluster, topic) == []


def test_command_that_is_too_large_is_an_error(sender: CommandSender[Command]) -> None:
    class Note(Deposit, frozen=True, kw_only=True, tag="Deposit"):
        text: str

    with pytest.raises(InvalidEvent, match="can't be sent"):
        sender.send("ada", Note(amount=1, text="x" * 3_000_000))


def test_missing_store_and_broker_are_errors(bootstrap: str, topic: str) -> None:
    with pytest.raises(StoreUnavailable, match=f"there is no topic {topic}"):
        CommandSender(topic, Account(), bootstrap=bootstrap, timeout_s=TIMEOUT_S)
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailable, match=str(port)):
        CommandSender(topic, Account(), bootstrap=f"127.0.0.1:{port}", timeout_s=1)
