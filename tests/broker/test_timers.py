"""Many timeouts behind one wake-up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from headrace.broker.timers import Timers
from headrace.testing.manual_clock import ManualClock


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Fixture:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = ManualClock()
        self.due: list[str] = []
        self.timers: Timers[str] = Timers(loop, self.clock, self.due.append)

    def pass_ms(self, by_ms: int) -> list[str]:
        """What came due in this time."""
        self.clock.advance_ms(by_ms)
        self.timers.run_due()
        due, self.due[:] = [*self.due], []
        return due


def test_timeout_is_reported_once_and_not_before_its_deadline(loop: asyncio.AbstractEventLoop) -> None:
    fixture = Fixture(loop)
    fixture.timers.arm("a", 100)
    assert fixture.pass_ms(99) == []
    assert fixture.pass_ms(1) == ["a"]
    assert fixture.pass_ms(1_000) == []


def test_arming_again_moves_the_deadline(loop: asyncio.AbstractEventLoop) -> None:
    fixture = Fixture(loop)
    for name in ("later", "sooner"):
        fixture.timers.arm(name, 100)
    fixture.timers.arm("later", 200)
    fixture.timers.arm("sooner", 50)
    assert fixture.pass_ms(50) == ["sooner"]
    assert fixture.pass_ms(149) == []
    assert fixture.pass_ms(1) == ["later"]


def test_cancelled_timeout_is_not_reported_unless_armed_again(loop: asyncio.AbstractEventLoop) -> None:
    fixture = Fixture(loop)
    fixture.timers.arm("a", 100)
    fixture.timers.cancel("a")
    assert fixture.pass_ms(100) == []
    fixture.timers.arm("a", 100)
    assert fixture.pass_ms(100) == ["a"]


def test_callback_may_cancel_a_timeout_that_is_due_too(loop: asyncio.AbstractEventLoop) -> None:
    fixture = Fixture(loop)

    def on_due(key: str) -> None:
        fixture.due.append(key)
        fixture.timers.cancel("b")

    fixture.timers = Timers(loop, fixture.clock, on_due)
    fixture.timers.arm("a", 10)
    fixture.timers.arm("b", 20)
    assert fixture.pass_ms(100) == ["a"]


def test_event_loop_runs_due_timeouts(loop: asyncio.AbstractEventLoop) -> None:
    fixture = Fixture(loop)
    fixture.timers = Timers(loop, fixture.clock, lambda _: loop.stop())
    fixture.timers.arm("long", 3_600_000)
    fixture.timers.arm("now", 0)
    loop.run_forever()  # ends only if the timeout comes
    assert len(fixture.timers) == 1


def test_callback_that_fails_stops_no_other_and_is_reported(loop: asyncio.AbstractEventLoop) -> None:
    fixture = Fixture(loop)
    reported: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def on_due(key: str) -> None:
        if key == "bad":
            raise KeyError(key)
        fixture.due.append(key)

    fixture.timers = Timers(loop, fixture.clock, on_due)
    for key in ("bad", "good"):
        fixture.timers.arm(key, 10)
    fixture.timers.arm("later", 20)
    fixture.clock.advance_ms(10)
    fixture.timers.run_due()
    fixture.clock.advance_ms(10)
    fixture.timers.run_due()
    assert fixture.due == ["good", "later"]
    assert [type(error) for error in reported] == [KeyError]
