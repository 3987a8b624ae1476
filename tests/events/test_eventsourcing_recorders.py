"""The test cases that the library `eventsourcing` ships, as they are, and what only this module promises."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    DataError,
    IntegrityError,
    OperationalError,
    ProcessRecorder,
    StoredEvent,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.tests import persistence as shipped
from eventsourcing.utils import Environment, get_topic

from headrace.events.eventsourcing_recorders import (
    HeadraceAggregateRecorder,
    HeadraceApplicationRecorder,
    HeadraceFactory,
    HeadraceProcessRecorder,
    HeadraceTrackingRecorder,
)
from headrace.events.recorder_log import RecorderLog
from headrace.kafka.cluster import Cluster

TIMEOUT_S = 30.0
MODULE = "headrace.events.eventsourcing_recorders"


class OnTopic:
    """Gives the shipped cases, which are unittest's, the broker of the tests and a topic of their own."""

    cluster: Cluster
    logs: list[RecorderLog]

    @pytest.fixture(autouse=True)
    def _with_broker(self, bootstrap: str) -> Iterator[None]:
        self.cluster = Cluster(bootstrap, timeout_s=TIMEOUT_S)
        self.logs = []
        self.env = environment(bootstrap)
        yield
        for log in self.logs:
            log.close()

    def new_log(self, topic: str = "") -> RecorderLog:
        log = RecorderLog(self.cluster, topic or new_topic(), timeout_s=TIMEOUT_S)
        self.logs.append(log)
        return log


def new_topic() -> str:
    return f"recorded-{uuid.uuid4().hex[:12]}"


def environment(bootstrap: str, topic: str = "", **variables: str) -> Environment:
    return Environment(
        "Bank",
        {
            "PERSISTENCE_MODULE": MODULE,
            "HEADRACE_BOOTSTRAP": bootstrap,
            "HEADRACE_EVENTS_TOPIC": topic or new_topic(),
            **variables,
        },
    )


class TestAggregateRecorder(OnTopic, shipped.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return HeadraceAggregateRecorder(self.new_log())


class TestApplicationRecorder(OnTopic, shipped.ApplicationRecorderTestCase[HeadraceApplicationRecorder]):
    def create_recorder(self) -> HeadraceApplicationRecorder:
        return HeadraceApplicationRecorder(self.new_log())

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestNotificationIdsDoNotInterleave(OnTopic, shipped.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> ApplicationRecorder:
        return HeadraceApplicationRecorder(self.new_log())


class TestTrackingRecorder(OnTopic, shipped.TrackingRecorderTestCase):
    def create_recorder(self) -> TrackingRecorder:
        return HeadraceTrackingRecorder(self.new_log())


class TestProcessRecorder(OnTopic, shipped.ProcessRecorderTestCase):
    def create_recorder(self) -> ProcessRecorder:
        return HeadraceProcessRecorder(self.new_log())


class OwnTrackingRecorder(HeadraceTrackingRecorder):
    pass


class TestFactory(OnTopic, shipped.InfrastructureFactoryTestCase[HeadraceFactory]):
    def expected_factory_class(self) -> type[HeadraceFactory]:
        return HeadraceFactory

    def expected_aggregate_recorder_class(self) -> type[AggregateRecorder]:
        return HeadraceAggregateRecorder

    def expected_application_recorder_class(self) -> type[ApplicationRecorder]:
        return HeadraceApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[TrackingRecorder]:
        return HeadraceTrackingRecorder

    def tracking_recorder_subclass(self) -> type[TrackingRecorder]:
        return OwnTrackingRecorder

    def expected_process_recorder_class(self) -> type[ProcessRecorder]:
        return HeadraceProcessRecorder


# What the shipped cases do not check.


class Account(Aggregate):
    def __init__(self) -> None:
        self.balance = 0

    @event("Deposited")
    def deposit(self, amount: int) -> None:
        self.balance += amount


class Bank(Application[UUID]):
    name = "Bank"
    is_snapshotting_enabled = True

    def open_account(self) -> UUID:
        account = Account()
        self.save(account)
        return account.id

    def deposit(self, account_id: UUID, amount: int) -> None:
        account: Account = self.repository.get(account_id)
        account.deposit(amount)
        self.save(account)

    def balance(self, account_id: UUID) -> int:
        account: Account = self.repository.get(account_id)
        return account.balance


def new_event(version: int, originator_id: UUID | str = "ada", **fields: Any) -> StoredEvent:
    return StoredEvent(
        **{"originator_id": originator_id, "originator_version": version, "topic": "t", "state": b"s"}
        | fields
    )


@pytest.fixture
def recorders(cluster: Cluster, topic: str) -> Iterator[list[HeadraceProcessRecorder]]:
    """Two of the same application, as in two processes."""
    logs = [RecorderLog(cluster, topic, timeout_s=TIMEOUT_S) for _ in range(2)]
    yield [HeadraceProcessRecorder(log) for log in logs]
    for log in logs:
        log.close()


def test_application_continues_from_its_topic(bootstrap: str) -> None:
    env = environment(bootstrap)
    first = Bank(env)
    account_id = first.open_account()
    first.deposit(account_id, 10)
    first.take_snapshot(account_id)
    first.deposit(account_id, 5)
    first.close()
    second = Bank(env)
    assert second.balance(account_id) == 15
    assert [each.id for each in second.notification_log.select(1, 10)] == [1, 2, 3]
    assert second.snapshots is not None
    assert len(list(second.snapshots.get(account_id))) == 1
    second.close()


def test_two_processes_record_one_gapless_sequence(recorders: list[HeadraceProcessRecorder]) -> None:
    def insert(recorder: HeadraceProcessRecorder, originator_id: str) -> None:
        for version in range(10):
            recorder.insert_events([new_event(version, originator_id)])

    threads = [
        threading.Thread(target=insert, args=(recorder, name))
        for recorder, name in zip(recorders, ("ada", "bob"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for recorder in recorders:
        recorder._log.refresh()
    first, second = (recorder.select_notifications(None, 100) for recorder in recorders)
    assert first == second
    assert [each.id for each in first] == list(range(1, 21))


def test_version_of_another_process_is_a_conflict(recorders: list[HeadraceProcessRecorder]) -> None:
    first, second = recorders
    second.insert_events([new_event(1)])
    first.insert_events([new_event(2)])
    with pytest.raises(IntegrityError):
        second.insert_events([new_event(2)])
    assert first.max_notification_id() == 2


def test_conflict_of_the_position_records_no_event(recorders: list[HeadraceProcessRecorder]) -> None:
    first, second = recorders
    first.insert_events([new_event(1)], tracking=Tracking("upstream", 5))
    with pytest.raises(IntegrityError):
        second.insert_events([new_event(2)], tracking=Tracking("upstream", 5))
    assert [each.originator_version for each in first.select_events("ada")] == [1]


def test_subscription_gets_events_of_another_process(recorders: list[HeadraceProcessRecorder]) -> None:
    first, second = recorders
    with first.subscribe() as subscription:
        second.insert_events([new_event(1)])
        assert next(subscription).id == 1


def test_ids_keep_their_type(recorders: list[HeadraceProcessRecorder]) -> None:
    first, second = recorders
    number = uuid.uuid4()
    first.insert_events([new_event(1, number), new_event(1, "ada", topic="", state=b"\x00\xff")])
    second._log.refresh()
    found = second.select_notifications(None, 10)
    assert [(each.originator_id, each.topic, each.state) for each in found] == [
        (number, "t", b"s"),
        ("ada", "", b"\x00\xff"),
    ]


@pytest.mark.parametrize(
    "bad",
    [new_event(-1), new_event(1, ""), new_event(1, state=b"x" * 2_000_000)],
    ids=["version", "id", "size"],
)
def test_event_that_cannot_be_stored_is_an_error_of_the_data(
    recorders: list[HeadraceProcessRecorder], bad: StoredEvent
) -> None:
    with pytest.raises(DataError):
        recorders[0].insert_events([new_event(1, "bob"), bad])
    assert recorders[0].insert_events([new_event(1, "bob")]) == [1]


def test_topic_of_something_else_is_an_operational_error(
    bootstrap: str, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    factory = HeadraceFactory(environment(bootstrap, topic))
    with pytest.raises(OperationalError, match="2 partitions"):
        factory.application_recorder()


def test_recorder_class_can_be_chosen(bootstrap: str) -> None:
    env = environment(bootstrap, TRACKING_RECORDER_TOPIC=get_topic(OwnTrackingRecorder))
    factory = HeadraceFactory(env)
    assert type(factory.tracking_recorder()) is OwnTrackingRecorder
    factory.close()
