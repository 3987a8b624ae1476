"""The producer by itself; tests/contract has what the policies promise with it."""

from __future__ import annotations

from pathlib import Path

from headrace.edges.counters import Counters
from headrace.edges.delivery import Delivery
from headrace.edges.event import Entry, Event
from headrace.edges.waiting import WaitingEvents
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess


def entries(topic: str, first: int, count: int) -> list[Entry]:
    return [
        Entry(event=Event(topic=topic, value=b"%d" % number), memory_bytes=1, timestamp_ms=1)
        for number in range(first, first + count)
    ]


def test_events_whose_producer_failed_are_sent_again_in_order(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", durability="os", default_partitions=1)
    counters, problems = Counters(), list[str]()
    queue = WaitingEvents(
        "block", bytes_max=1000, on_taken=counters.add_received, on_dropped=lambda _entry, _reason: None
    )
    delivery = Delivery(
        queue,
        {"bootstrap.servers": broker.bootstrap, "log_level": 0},
        counters,
        in_flight_bytes_max=1000,
        on_problem=problems.append,
    )
    queue.offer(entries("events", 0, 50))
    wait_until(lambda: delivery._sent_count == 50)
    delivery._producer.purge()
    wait_until(lambda: len(problems) == 1)
    queue.offer(entries("events", 50, 50))
    with broker:
        assert delivery.drain(60)
        assert delivery.close() == []
        found = [int(value) for value in values_in(broker.bootstrap, "events")]

    assert found == list(range(100))
    assert "sending again" in problems[0]
    assert counters.count().delivered == 100


def test_what_the_broker_has_not_acknowledged_is_returned_at_the_end() -> None:
    counters = Counters()
    queue = WaitingEvents(
        "block", bytes_max=1000, on_taken=counters.add_received, on_dropped=lambda _entry, _reason: None
    )
    delivery = Delivery(
        queue,
        {"bootstrap.servers": "127.0.0.1:1", "log_level": 0},
        counters,
        in_flight_bytes_max=3,
        on_problem=lambda _text: None,
    )
    queue.offer(entries("t", 0, 5))
    wait_until(lambda: delivery.in_flight_bytes == 3)
    assert not delivery.drain(0.01)
    assert [each.event.value for each in delivery.close()] == [b"0", b"1", b"2"]
    assert [each.event.value for each in queue.close()] == [b"3", b"4"]
    assert counters.count().delivered == 0
