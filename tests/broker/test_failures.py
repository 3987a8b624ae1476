"""Failures of background work: counted, logged, and kept for a while."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.failures import KINDS_MAX, Failures
from headrace.testing.manual_clock import ManualClock


def test_last_failure_of_each_kind_is_kept_for_a_while() -> None:
    clock = ManualClock()
    failures = Failures(clock)
    failures.report("compaction", OSError("first"))
    failures.report("retention", ValueError())
    clock.advance_ms(5_000)
    failures.report("compaction", OSError("second"))
    assert [*failures.within(10)] == ["retention: ValueError", "compaction: second"]
    assert [*failures.within(4)] == ["compaction: second"]
    assert failures.count == 3


def test_kinds_are_bounded_and_the_oldest_is_dropped() -> None:
    failures = Failures(ManualClock())
    for number in range(KINDS_MAX + 1):
        failures.report(f"chore {number}", OSError("full"))
    kept = [*failures.within(1)]
    assert (len(kept), kept[0]) == (KINDS_MAX, "chore 1: full")


def test_only_a_bug_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures(ManualClock())
    failures.report("retention", OSError("full"), partition="t-0")
    failures.report("retention", ValueError("a bug"))
    explained, bug = caplog.records
    assert (explained.exc_info, explained.__dict__["partition"]) == (None, "t-0")
    assert bug.exc_info is not None


def test_exception_that_nothing_retrieves_is_reported() -> None:
    failures = Failures(ManualClock())

    async def fail() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(failures.report_unhandled)
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    asyncio.run(fail())
    [failure] = failures.within(1)
    assert failure.endswith("division by zero")
