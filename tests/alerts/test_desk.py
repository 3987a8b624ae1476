"""Transactions of all alerts: the outbox, and its bound for a target that takes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.alerts.definition import Alert, Target
from headrace.alerts.delivery import Delivery
from headrace.alerts.desk import Desk
from headrace.alerts.lanes import WAITING_MAX, Lanes
from headrace.alerts.message import Waiting, sample
from headrace.alerts.state_log import StateLog
from headrace.clock import SystemClock
from tests.alerts.conftest import Lab, wait_until

ALERT = Alert(
    name="errors",
    id="a1",
    topic="logs",
    created_ms=0,
    when="x > 1",
    to=(Target(id="t", address="https://host/hook"),),
)
MESSAGE = sample("errors", "logs", "", (), "", 0)


class Hanging:
    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, waiting: Waiting) -> str:
        self.go_on.wait()
        return "done"


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    found = Hanging()
    yield found
    found.go_on.set()


def test_messages_beyond_the_bound_of_a_target_are_dead_with_their_text(lab: Lab, hanging: Hanging) -> None:
    log = StateLog(lab.cluster, SystemClock(), "folder")
    stored = log.open()
    lanes, delivery = Lanes(hanging, lambda _: 1_000, SystemClock()), Delivery(None)
    desk = Desk(log, lanes, delivery)
    desk.load(stored, {"errors": ALERT}, 0)
    for _ in range(WAITING_MAX + 5):
        desk.engines["errors"].add_message(MESSAGE)
    desk.commit(0)
    assert len(lab.stored().waiting) == WAITING_MAX
    dead = [each for each in lab.history() if each.event == "dead"]
    assert [each.reason for each in dead] == [f"{WAITING_MAX} messages wait for this target"] * 5
    assert dead[0].text.startswith("This is a test")

    hanging.go_on.set()
    wait_until(lambda: len(lanes.outcomes()) == WAITING_MAX)
    assert not desk.has_moved
    desk.commit(0)
    assert lab.stored().waiting == {}
    book = lab.stored().alerts["errors"].book
    assert book is not None
    assert (book.counts.delivered, book.counts.dead, book.counts.messages) == (
        WAITING_MAX,
        5,
        WAITING_MAX + 5,
    )
    assert {each.reason for each in lab.history() if each.event == "delivered"} == {"done"}
    log.close()


def test_desk_is_changed_by_more_than_positions(lab: Lab) -> None:
    log = StateLog(lab.cluster, SystemClock(), "folder")
    desk = Desk(log, Lanes(lambda _: "", lambda _: 0, SystemClock()), Delivery(None))
    desk.load(log.open(), {"errors": ALERT}, 0)
    desk.commit(0)
    desk.engines["errors"].move(0, 5)
    assert (desk.is_changed, desk.has_moved) == (False, True)
    desk.commit(0)
    assert not desk.has_moved
    desk.change({}, 0)
    assert desk.is_changed
    desk.commit(0)
    assert lab.stored().alerts == {}
    log.close()
