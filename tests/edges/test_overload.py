"""The intake by itself; tests/contract/test_overload.py has what every policy promises in front of a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.edges.event import Event, Fate
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.edges.spool import Spool
from headrace.log.filesystem import DiskFileSystem
from headrace.testing.manual_clock import ManualClock
from headrace.topic_names import InvalidTopicName
from tests.edges.conftest import values_in

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
QUICK = EdgeSettings(stop_s=0)


def test_events_of_an_offer_arrive_in_order_with_all_their_parts(bootstrap: str, topic: str) -> None:
    with Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="e") as intake:
        assert intake.offer([Event(topic=topic, value=b"%d" % number) for number in range(100)])
        assert intake.offer([])
    assert values_in(bootstrap, topic) == [b"%d" % number for number in range(100)]
    assert intake.close().delivered == 100


def test_event_without_a_time_has_that_of_its_arrival(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = EdgeSettings(overload="buffer", data_dir=tmp_path, stop_s=0)
    with Intake(NOWHERE, settings, name="e", clock=clock) as intake:
        intake.offer([Event(topic="t", value=b""), Event(topic="t", value=b"", timestamp_ms=5)])
    spool = Spool(
        tmp_path / "edges" / "e",
        bytes_max=1_000_000,
        on_taken=lambda _count: None,
        files=DiskFileSystem(),
        clock=clock,
    )
    assert [each.timestamp_ms for each in spool.take(1000, 0)] == [clock.now_ms(), 5]
    spool.close()


def test_name_that_is_no_folder_is_rejected() -> None:
    with pytest.raises(InvalidTopicName):
        Intake(NOWHERE, QUICK, name="../elsewhere")


def test_fate_at_the_end_names_the_events_that_were_not_delivered() -> None:
    seen: list[tuple[int, Fate, str]] = []
    with Intake(NOWHERE, QUICK, name="e") as intake:
        intake.offer([Event(topic="t", value=b"1"), Event(topic="t", value=b"2")], lambda *f: seen.append(f))
    assert seen == [(0, Fate.DROPPED, "stopped"), (1, Fate.DROPPED, "stopped")]


def test_nothing_is_sent_for_no_events() -> None:
    with Intake(NOWHERE, QUICK, name="e") as intake:
        assert asyncio.run(intake.send([])) == []


def test_events_that_an_earlier_run_left_are_named_before_any_is_delivered(tmp_path: Path) -> None:
    settings = EdgeSettings(overload="buffer", data_dir=tmp_path, stop_s=0)
    with Intake(NOWHERE, settings, name="e") as intake:
        intake.offer(
            [Event(topic="t", value=b"1", timestamp_ms=5), Event(topic="t", value=b"2", timestamp_ms=6)]
        )
    left: list[Event] = []
    with Intake(NOWHERE, settings, name="e", on_left=left.append):
        pass
    assert [(each.value, each.timestamp_ms) for each in left] == [(b"1", 5), (b"2", 6)]
