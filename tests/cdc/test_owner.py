"""A process that was fenced learns by whom, or that its transaction was open for too long."""

from __future__ import annotations

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.owner import Owner, reason_of_fencing
from headrace.cdc.publisher import Publisher
from headrace.kafka.cluster import Cluster


def test_owner_is_shown_with_its_host_and_time() -> None:
    owner = Owner(id="a", host="db-1", pid=7, opened_ms=1_000)
    assert str(owner) == "process 7 on db-1, since 1970-01-01T00:00:01Z"


def test_reason_is_the_last_owner_if_it_is_another_one(name: str, cluster: Cluster) -> None:
    publisher = Publisher(name, cluster)
    mine = publisher._owner
    topic = f"headrace.cdc.{name}"
    assert isinstance(reason_of_fencing(name, mine, cluster, topic), SourceUnavailable)
    other = Publisher(name, cluster)
    reason = reason_of_fencing(name, mine, cluster, topic)
    assert isinstance(reason, BadCapture)
    assert str(other._owner) in str(reason)
    for each in (publisher, other):
        each.close()


def test_broker_that_is_away_leaves_the_reason_open(name: str) -> None:
    away = Cluster("127.0.0.1:1", timeout_s=0.2)
    reason = reason_of_fencing(name, Owner.this_process(1), away, f"headrace.cdc.{name}")
    assert isinstance(reason, SourceUnavailable)
    assert "cannot be read" in str(reason)
