"""Configs of brokers that can be altered while they run, over the wire, compared with Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.config_requests import BROKER, TOPIC, alter, described
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually

NODE_ID, ALL_BROKERS = "1", ""
BROKER_SOURCE, ALL_BROKERS_SOURCE = 2, 3
THROTTLE = "leader.replication.throttled.rate"


def throttle(wire: Wire, name: str) -> tuple[str | None, int] | None:
    found = described(wire, BROKER, name).get(THROTTLE)
    return None if found is None else (found.value, found.config_source)


@pytest.mark.parametrize(("name", "source"), [(NODE_ID, BROKER_SOURCE), (ALL_BROKERS, ALL_BROKERS_SOURCE)])
def test_throttle_for_moving_replicas_is_set_shown_and_removed(
    any_wire: Wire, name: str, source: int
) -> None:
    assert alter(any_wire, BROKER, name, leader_replication_throttled_rate="1000") == 0
    eventually(lambda: throttle(any_wire, name) == ("1000", source), "Kafka applies the change")
    assert alter(any_wire, BROKER, name, leader_replication_throttled_rate=None) == 0
    eventually(lambda: throttle(any_wire, name) is None, "Kafka applies the change")


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (NODE_ID, {"node_id": "3"}, ErrorCode.INVALID_REQUEST),
        (NODE_ID, {"leader_replication_throttled_rate": "fast"}, ErrorCode.INVALID_REQUEST),
        (NODE_ID, {"leader_replication_throttled_rate": "-1"}, ErrorCode.INVALID_REQUEST),
        ("7", {"leader_replication_throttled_rate": "1"}, ErrorCode.INVALID_REQUEST),
        (NODE_ID, {"min_insync_replicas": "1"}, ErrorCode.INVALID_CONFIG),
        (ALL_BROKERS, {"min_insync_replicas": None}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_other_changes_are_rejected(
    any_wire: Wire, name: str, changes: dict[str, str | None], expected: ErrorCode
) -> None:
    assert alter(any_wire, BROKER, name, **changes) == expected


def test_topics_inherit_the_replicas_that_are_set_for_all_brokers(any_wire: Wire, any_topic: str) -> None:
    found = described(any_wire, TOPIC, any_topic)["min.insync.replicas"]
    assert (found.value, found.config_source) == ("1", ALL_BROKERS_SOURCE)
    assert [(one.value, one.source) for one in found.synonyms] == [("1", ALL_BROKERS_SOURCE), ("1", 5)]
    of_all = described(any_wire, BROKER, ALL_BROKERS)["min.insync.replicas"]
    assert (of_all.value, len(of_all.synonyms)) == ("1", 1)


def test_change_survives_a_restart(start_broker: StartBroker, connect: Connect, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path)
    assert alter(connect(broker), BROKER, ALL_BROKERS, min_insync_replicas="2") == 0
    broker.stop()
    again = connect(start_broker(data_dir=tmp_path))
    assert described(again, BROKER, ALL_BROKERS)["min.insync.replicas"].value == "2"
