"""The parts of a broker share what has to be the same, and need no event loop that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.manual_clock import ManualClock
from tests.broker.state_topics import parts_in


def test_coordinators_are_unavailable_until_their_state_is_loaded(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            coordinators = (parts.groups, parts.shares, parts.transactions)
            assert [one.unavailable for one in coordinators] == [loading] * 3

    asyncio.run(scenario())


def test_parts_use_the_clock_that_they_are_built_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(5_000)
        with parts_in(tmp_path, clock=clock) as parts:
            before_ms = parts.shares.now_ms()
            clock.advance_ms(1_234)
            assert parts.shares.now_ms() - before_ms == 1_234
            assert parts.runtime.clock is clock

    asyncio.run(scenario())
