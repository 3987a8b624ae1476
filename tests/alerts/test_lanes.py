"""Lanes: retries, order, a dead target beside a live one, and what happens to outcomes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.alerts.errors import DeliveryFailed
from headrace.alerts.lanes import WAITING_MAX, Lanes
from headrace.alerts.message import Message, MessageKind, Waiting
from headrace.clock import SystemClock
from tests.alerts.conftest import wait_until


def waiting(number: int, target: str = "t", at_ms: int = 1 << 50) -> Waiting:
    message = Message(id=f"m{number}", alert="a", topic="logs", kind=MessageKind.FIRING, at_ms=at_ms)
    return Waiting(message=message, target=target)


class Targets:
    """Takes what it gets, fails as often as it is asked to, or hangs."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.failures: list[Exception] = []
        self.hung: set[str] = set()
        self.go_on = threading.Event()

    def deliver(self, each: Waiting) -> str:
        if each.target in self.hung:
            self.go_on.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.taken.append((each.target, each.message.id))
        return ""


@pytest.fixture
def targets() -> Targets:
    return Targets()


@pytest.fixture
def lanes(targets: Targets) -> Iterator[Lanes]:
    found = Lanes(targets.deliver, lambda _: 3_600_000, SystemClock(), pause_s_min=0.01)
    yield found
    targets.go_on.set()
    found.stop()


def test_messages_of_a_target_are_taken_in_order(lanes: Lanes, targets: Targets) -> None:
    for number in range(20):
        lanes.add(waiting(number))
    wait_until(lambda: len(lanes.outcomes()) == 20)
    assert targets.taken == [("t", f"m{number}") for number in range(20)]
    assert all(each.is_delivered and each.attempt == 1 for each in lanes.outcomes())


def test_target_that_hangs_delays_no_other(lanes: Lanes, targets: Targets) -> None:
    targets.hung.add("dead")
    lanes.add(waiting(0, "dead"))
    for number in range(20):
        lanes.add(waiting(number, f"t{number}"))
    wait_until(lambda: len(targets.taken) == 20)
    assert lanes.count("dead") == 1
    targets.go_on.set()
    wait_until(lambda: ("dead", "m0") in targets.taken)


def test_failure_is_retried_and_reported_and_the_next_message_waits(lanes: Lanes, targets: Targets) -> None:
    targets.failures += [DeliveryFailed("busy"), OSError("broken")]
    lanes.add(waiting(0))
    lanes.add(waiting(1))
    wait_until(lambda: len(lanes.outcomes()) == 4)
    assert [(each.waiting.message.id, each.reason, each.is_over) for each in lanes.outcomes()] == [
        ("m0", "busy", False),
        ("m0", "OSError: broken", False),
        ("m0", "", True),
        ("m1", "", True),
    ]
    assert [each.attempt for each in lanes.outcomes()] == [1, 2, 3, 1]


def test_final_failure_and_the_deadline_end_a_message(lanes: Lanes, targets: Targets) -> None:
    targets.failures += [DeliveryFailed("unknown mailbox", is_final=True), DeliveryFailed("busy")]
    lanes.add(waiting(0))
    lanes.add(waiting(1, at_ms=0))
    wait_until(lambda: len(lanes.outcomes()) == 2)
    assert [(each.is_dead, each.reason) for each in lanes.outcomes()] == [
        (True, "unknown mailbox"),
        (True, "busy"),
    ]


def test_message_is_sent_once_until_its_outcome_is_marked(lanes: Lanes, targets: Targets) -> None:
    lanes.add(waiting(0))
    wait_until(lambda: len(lanes.outcomes()) == 1)
    lanes.add(waiting(0))
    outcomes = lanes.outcomes()
    lanes.keep({("m0", "t")})
    assert lanes.outcomes() == outcomes
    lanes.marked(outcomes)
    assert (lanes.outcomes(), targets.taken) == ([], [("t", "m0")])


def test_outcome_that_the_log_has_is_not_written_again(lanes: Lanes) -> None:
    lanes.add(waiting(0))
    wait_until(lambda: len(lanes.outcomes()) == 1)
    lanes.keep({})
    assert lanes.outcomes() == []


def test_stop_leaves_what_was_not_sent(lanes: Lanes, targets: Targets) -> None:
    targets.failures += [DeliveryFailed("busy")] * 1_000_000
    lanes.add(waiting(0))
    wait_until(lambda: len(lanes.outcomes()) > 0)
    lanes.stop()
    assert not any(each.is_over for each in lanes.outcomes())
    lanes.add(waiting(1))
    assert targets.taken == []
    assert lanes.count("t") < WAITING_MAX
