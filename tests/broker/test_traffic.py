"""The memory that all connections share: which may continue, and which have to free some."""

from __future__ import annotations

from headrace.broker.settings import BrokerSettings
from headrace.broker.traffic import Traffic


class Holder:
    """What the traffic sees of a connection."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.held_bytes = self.unsent_bytes = self.unread_bytes = 0
        self.events: list[str] = []

    def hold(self, change_bytes: int) -> None:
        self.held_bytes += change_bytes
        self.traffic.add_inflight(change_bytes)

    def resume_if_possible(self) -> None:
        self.events.append("resumed")
        self.traffic.release(self)  # type: ignore[arg-type]
        # It continues immediately, and takes and frees the last room.
        self.hold(500)
        self.hold(-500)

    def stop_waiting(self) -> None:
        self.events.append("stopped waiting")

    def shed(self) -> None:
        self.events.append("shed")

    def reject_unread(self) -> None:
        self.events.append("rejected")


def holders(count: int, bytes_max: int = 1_000) -> tuple[Traffic, list[Holder]]:
    traffic = Traffic(BrokerSettings(inflight_bytes_max=bytes_max))
    made = [Holder(traffic) for _ in range(count)]
    traffic.connections.update(made)  # type: ignore[arg-type]
    return traffic, made


def test_connections_above_their_share_stop_when_memory_is_full() -> None:
    traffic, (large, small, idle, _) = holders(4)
    large.hold(900)
    assert traffic.has_room(large.held_bytes)
    small.hold(200)
    assert traffic.is_full
    assert traffic.share_bytes == 250
    assert [traffic.has_room(one.held_bytes) for one in (large, small, idle)] == [False, True, True]
    assert large.events == ["stopped waiting"]
    assert small.events == []


def test_room_of_a_response_is_the_rest_of_the_memory_or_the_share() -> None:
    traffic, (large, small) = holders(2)
    assert traffic.room_bytes(0) == 1_000
    large.hold(900)
    assert traffic.room_bytes(large.held_bytes) == 100
    assert traffic.room_bytes(small.held_bytes) == 500
    large.hold(200)
    assert traffic.room_bytes(large.held_bytes) == 0


def test_connection_with_most_unsent_bytes_is_shed_when_the_shares_are_used() -> None:
    traffic, (worst, better, busy) = holders(3)
    worst.unsent_bytes, better.unsent_bytes = 900, 300
    worst.hold(900)
    better.hold(300)
    assert "shed" not in worst.events
    busy.hold(800)
    assert not traffic.has_room(0)
    assert [one.events.count("shed") for one in (worst, better, busy)] == [1, 0, 0]


def test_largest_unfinished_request_is_rejected() -> None:
    traffic, (large, small) = holders(2)
    large.unread_bytes, small.unread_bytes = 990, 10
    traffic.unread_bytes = 999
    traffic.bound_unread()
    assert large.events == []
    traffic.unread_bytes = 1_000
    traffic.bound_unread()
    assert (large.events, small.events) == (["rejected"], [])


def test_held_connections_resume_together() -> None:
    """Each one fills and frees the last room when it resumes: that must not nest."""
    traffic, made = holders(500)
    traffic.add_inflight(1_200)
    for one in made:
        traffic.hold(one)  # type: ignore[arg-type]
    traffic.add_inflight(-600)
    assert all("resumed" in one.events for one in made)
    assert traffic.inflight_bytes == 600
