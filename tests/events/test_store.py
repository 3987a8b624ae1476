from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from headrace.events import (
    Aggregate,
    CommandRejected,
    EventsError,
    EventStore,
    InvalidEvent,
    Loaded,
    StoreUnavailable,
    UnknownEventType,
    VersionConflict,
    WriterFenced,
)
from headrace.kafka.cluster import Cluster, Partition
from headrace.testing.manual_clock import ManualClock
from headrace.testing.ports import free_ports
from headrace.topic_names import InvalidTopicName
from tests.events.accounts import Account, AccountStore, Balance, Deposit, Deposited, Withdraw, Withdrawn
from tests.events.conftest import OpenStore

TIMEOUT_S = 30.0


def deposit(store: AccountStore, *amounts: int, aggregate_id: str = "ada") -> None:
    for amount in amounts:
        store.handle(aggregate_id, Deposit(amount=amount))


def write(cluster: Cluster, topic: str, value: bytes, key: str | None, **headers: str) -> None:
    """As a program that is no store."""
    producer = Producer(cluster.client_config())
    producer.produce(topic, value, key, headers=dict(headers), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


# Append


def test_appended_events_are_read_by_another_process(store: AccountStore, open_store: OpenStore) -> None:
    written = store.append(
        "ada",
        [Deposited(amount=10, note="é"), Withdrawn(amount=3)],
        expected_version=0,
        correlation_id="order-7",
        causation_id="click-1",
    )
    found = open_store().events("ada")
    assert found == written
    assert [(each.version, each.type, each.offset) for each in found] == [
        (1, "deposited", 0),
        (2, "withdrawn", 1),
    ]
    assert {(each.correlation_id, each.causation_id) for each in found} == {("order-7", "click-1")}
    assert open_store().events("ada", after=1) == written[1:]


@pytest.mark.parametrize("expected_version", [0, 1, 3, 100, -1])
def test_wrong_version_is_a_conflict_and_writes_nothing(store: AccountStore, expected_version: int) -> None:
    deposit(store, 1, 2)
    with pytest.raises(VersionConflict) as raised:
        store.append("ada", [Deposited(amount=1)], expected_version=expected_version)
    assert raised.value.version == 2
    assert len(store.events("ada")) == 2


def test_of_two_processes_with_the_same_version_one_wins(store: AccountStore, open_store: OpenStore) -> None:
    other = open_store()
    assert store.load("ada") == other.load("ada")
    other.append("ada", [Deposited(amount=1)], expected_version=0)
    with pytest.raises(VersionConflict) as raised:
        store.append("ada", [Deposited(amount=2)], expected_version=0)
    assert raised.value.version == 1
    assert store.load("ada") == other.load("ada") == Loaded(state=Balance(amount=1, changes=1), version=1)


def test_without_takeover_the_fenced_process_gets_an_error(open_store: OpenStore) -> None:
    first, second = open_store(takeover=False), open_store()
    deposit(first, 1)
    deposit(second, 2)
    with pytest.raises(WriterFenced):
        first.append("ada", [Deposited(amount=3)], expected_version=2)
    assert first.load("ada").state.amount == 3  # reading needs no ownership


def test_version_that_only_another_process_has_written_yet_can_be_expected(
    store: AccountStore, open_store: OpenStore
) -> None:
    """The store has not noticed that it was fenced: no conflict may come from what it has in memory."""
    deposit(store, 1)
    deposit(open_store(), 2)
    assert store.append("ada", [Deposited(amount=3)], expected_version=2)[0].version == 3


def test_result_without_events_is_that_of_the_current_state(
    store: AccountStore, open_store: OpenStore
) -> None:
    deposit(store, 1)
    deposit(open_store(), 2)
    assert store.handle("ada", Deposit(amount=0)).version == 2


def test_opening_takes_all_partitions(open_store: OpenStore) -> None:
    first, second = open_store(takeover=False, partitions=3), open_store()
    first.open()
    second.open([0, 1])
    outcomes = []
    for number in range(20):
        try:
            first.append(f"a{number}", [Deposited(amount=1)], expected_version=0)
            outcomes.append(first.events(f"a{number}")[0].partition)
        except WriterFenced:
            outcomes.append(-1)
    assert set(outcomes) == {-1, 2}


def test_aggregates_are_spread_over_the_partitions(open_store: OpenStore) -> None:
    store = open_store(partitions=3)
    names = sorted(f"account-{number}" for number in range(12))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: deposit(store, 1, aggregate_id=name), names))
    assert store.aggregate_ids() == open_store().aggregate_ids() == names
    assert {store.events(name)[0].partition for name in names} == {0, 1, 2}


# Commands


def test_command_is_decided_from_the_state(store: AccountStore) -> None:
    assert store.handle("ada", Deposit(amount=10)).events == (Deposited(amount=10),)
    handled = store.handle("ada", Withdraw(amount=4))
    assert (handled.version, handled.events, handled.is_repeated) == (2, (Withdrawn(amount=4),), False)
    assert store.load("ada") == Loaded(state=Balance(amount=6, changes=2), version=2)


def test_command_is_decided_again_from_what_another_process_wrote(
    store: AccountStore, open_store: OpenStore
) -> None:
    deposit(store, 10)
    open_store().handle("ada", Withdraw(amount=8))
    with pytest.raises(CommandRejected, match="the balance is 2"):
        store.handle("ada", Withdraw(amount=8))
    assert store.handle("ada", Withdraw(amount=2)).version == 3


def test_command_id_is_handled_once_by_any_process(store: AccountStore, open_store: OpenStore) -> None:
    first = store.handle("ada", Deposit(amount=10), command_id="c1")
    again = open_store().handle("ada", Deposit(amount=10), command_id="c1")
    assert again == msgspec.structs.replace(first, is_repeated=True)
    assert store.load("ada").version == 1


def test_rejected_command_is_kept_with_its_reason(store: AccountStore, open_store: OpenStore) -> None:
    deposit(store, 1)
    for _ in range(2):  # the same outcome for a repetition
        with pytest.raises(CommandRejected, match="the balance is 1"):
            store.handle("ada", Withdraw(amount=5), command_id="c1")
        deposit(store, 10)
    (found,) = open_store().rejected("ada")
    assert (found.command_id, found.type, found.reason) == ("c1", "Withdraw", "the balance is 1")
    assert (found.data, found.is_error) == (b'{"amount":5}', False)
    assert store.rejected("bob") == []


def test_command_without_events_writes_nothing(store: AccountStore) -> None:
    handled = store.handle("ada", Deposit(amount=0))
    assert (handled.version, handled.events) == (0, ())


def test_expected_version_of_a_command_is_checked(store: AccountStore) -> None:
    deposit(store, 1)
    with pytest.raises(VersionConflict):
        store.handle("ada", Deposit(amount=1), expected_version=0)
    assert store.handle("ada", Deposit(amount=1), expected_version=1).version == 2


def test_dicts_are_events_and_commands(bootstrap: str, topic: str) -> None:
    class Notes(Aggregate[list[str], dict[str, Any], dict[str, Any]]):
        initial: list[str] = []  # noqa: RUF012

        def decide(self, state: list[str], command: dict[str, Any]) -> list[dict[str, Any]]:
            return [{"type": "noted", "text": command["text"]}]

        def evolve(self, state: list[str], event: dict[str, Any]) -> list[str]:
            return [*state, event["text"]]

    with EventStore(topic, Notes(), bootstrap=bootstrap, partitions=1, snapshot_every=1) as store:
        store.handle("ada", {"type": "note", "text": "hello"})
    with EventStore(topic, Notes(), bootstrap=bootstrap) as store:
        assert store.load("ada").state == ["hello"]


# The past


def test_state_at_every_version_offset_and_time(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, snapshot_every=2)
    times = [clock.now_ms() - 1000]
    for amount in (1, 10, 100, 1000):
        deposit(store, amount, 0)  # the second one has no event
        deposit(store, 7, aggregate_id="bob")
        times.append(clock.now_ms())
        clock.advance_ms(1000)
    amounts = [0, 1, 11, 111, 1111]
    offsets = [-1, *(each.offset for each in store.events("ada"))]
    for reader in (store, open_store()):
        for version, amount in enumerate(amounts):
            expected = Loaded(state=Balance(amount=amount, changes=version), version=version)
            assert reader.state_at("ada", version=version) == expected
            assert reader.state_at("ada", timestamp_ms=times[version]) == expected
            assert reader.state_at("ada", timestamp_ms=times[version] + 500) == expected
            assert reader.state_at("ada", offset=offsets[version]) == expected


@pytest.mark.parametrize("point", [{}, {"version": 1, "offset": 1}, {"version": 9}, {"version": -1}])
def test_point_that_does_not_exist_is_an_error(store: AccountStore, point: dict[str, int]) -> None:
    deposit(store, 1)
    with pytest.raises(EventsError):
        store.state_at("ada", **point)


# Snapshots


def test_snapshots_give_the_state_of_a_replay(open_store: OpenStore, cluster: Cluster, topic: str) -> None:
    store = open_store(snapshot_every=10)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: deposit(store, *range(1, 26), aggregate_id=name), ["ada", "bob"]))
    with_snapshots = open_store()
    partition, _ = with_snapshots.part(0)
    for name in ("ada", "bob"):
        loaded = with_snapshots.load(name)
        snapshot = partition.index.snapshot(name)
        assert snapshot is not None
        assert snapshot.version == 20
        partition.index.delete_snapshot(name)
        partition, _ = with_snapshots.part(0)
        assert loaded == Loaded(state=Balance(amount=325, changes=25), version=25)
        assert with_snapshots.state_at(name, version=25) == loaded


def test_snapshot_of_an_older_state_version_is_ignored(
    open_store: OpenStore, bootstrap: str, topic: str
) -> None:
    class DoubleAccount(Account):
        state_version = 2

        def evolve(self, state: Balance, event: Deposited | Withdrawn) -> Balance:
            return Balance(amount=state.amount + 2 * event.amount, changes=state.changes + 1)

    deposit(open_store(snapshot_every=2), 1, 2, 3)
    with EventStore(topic, DoubleAccount(), bootstrap=bootstrap) as store:
        assert store.load("ada").state.amount == 12


# Bad input


@pytest.mark.parametrize("aggregate_id", ["", "x" * 5000, None])
def test_invalid_aggregate_id_is_rejected(store: AccountStore, aggregate_id: str) -> None:
    with pytest.raises(InvalidEvent):
        store.append(aggregate_id, [Deposited(amount=1)], expected_version=0)
    with pytest.raises(InvalidEvent):
        store.load(aggregate_id)


def test_event_that_is_too_large_is_rejected_and_the_store_works_on(
    cluster: Cluster, open_store: OpenStore, topic: str
) -> None:
    cluster.create_topic(topic, partitions=1, config={"max.message.bytes": "5000", "retention.ms": "-1"})
    store = open_store()
    with pytest.raises(InvalidEvent, match="the topic takes 5,000"):
        store.append("ada", [Deposited(amount=1), Deposited(amount=1, note="x" * 5000)], expected_version=0)
    assert store.append("ada", [Deposited(amount=1)] * 100, expected_version=0)[-1].version == 100


def test_undeclared_event_and_command_are_rejected(store: AccountStore) -> None:
    with pytest.raises(InvalidEvent, match="no declared event"):
        store.append("ada", [Deposit(amount=1)], expected_version=0)  # type: ignore[list-item]
    with pytest.raises(InvalidEvent, match="no declared command"):
        store.handle("ada", Deposited(amount=1))  # type: ignore[arg-type]


def test_unknown_event_type_in_the_log_blocks_its_aggregate_only(
    store: AccountStore, cluster: Cluster, topic: str
) -> None:
    deposit(store, 1)
    write(cluster, topic, b"{}", "ada", type="closed", id="e1", version="2")
    with pytest.raises(UnknownEventType, match="the events of ada can't be replayed: the event type closed"):
        store.load("ada")
    assert store.state_at("ada", version=1).state.amount == 1
    deposit(store, 5, aggregate_id="bob")
    assert store.load("bob").version == 1


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({}, "is not an event: the header version is missing"),
        ({"type": "deposited", "id": "e1", "version": "1"}, "version 1 of ada .* after version 1"),
        ({"type": "deposited", "id": "e1", "version": "5"}, "version 5 of ada .* after version 1"),
    ],
)
def test_record_of_another_program_is_an_error_and_not_overwritten(
    store: AccountStore,
    open_store: OpenStore,
    cluster: Cluster,
    topic: str,
    headers: dict[str, str],
    problem: str,
) -> None:
    deposit(store, 1)
    write(cluster, topic, b"{}", "ada", **headers)
    with pytest.raises(EventsError, match=problem):
        open_store().append("ada", [Deposited(amount=1)], expected_version=1)


def test_added_partitions_are_an_error(open_store: OpenStore, cluster: Cluster, topic: str) -> None:
    deposit(open_store(partitions=1), 1)
    cluster.add_partitions(topic, 2)
    with pytest.raises(EventsError, match=r"1 partitions, and .* has 2"):
        open_store()


def test_snapshot_every_is_at_least_one(open_store: OpenStore) -> None:
    with pytest.raises(EventsError, match="snapshot_every is 0"):
        open_store(snapshot_every=0)


def test_invalid_topic_is_rejected(bootstrap: str) -> None:
    with pytest.raises(InvalidTopicName):
        EventStore("my accounts", Account(), bootstrap=bootstrap)


def test_missing_broker_is_an_error() -> None:
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailable, match=f"no broker answers at 127.0.0.1:{port}"):
        EventStore("accounts", Account(), bootstrap=f"127.0.0.1:{port}", timeout_s=1)


def test_address_is_that_of_the_environment(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", bootstrap)
    with EventStore(topic, Account(), partitions=1) as store:
        assert store.handle(uuid.uuid4().hex, Deposit(amount=1)).version == 1
    assert Partition(topic, 0) in store.cluster.topics()[topic]
