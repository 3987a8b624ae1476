"""Share groups on a clock that is set while they are at work: locks and delays last as long as they should."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from headrace.broker.server import Server
from headrace.broker.settings import BrokerSettings
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, produce
from tests.broker.share_requests import ACCEPT, RELEASE, WAIT_MS, ShareMember, set_group_configs

YEAR_MS = 31_536_000_000


class JumpingClock:
    """Its wall clock can be set; its monotonic one goes on as if nothing had happened."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic_s(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize("jump_ms", [YEAR_MS, -YEAR_MS])
def test_locks_and_delays_do_not_jump_with_the_wall_clock(tmp_path: Path, jump_ms: int) -> None:
    clock = JumpingClock()

    def work(bootstrap: str) -> None:
        with Wire(bootstrap) as wire:
            topic_id = create_topic(wire, "t", retention_ms="-1")
            set_group_configs(
                wire, "g", share_auto_offset_reset="earliest", headrace_share_retry_backoff_ms=150
            )
            produce(wire, "t", batch(b"0", b"1"))
            holder, other = ShareMember(wire, "g", topic_id), ShareMember(wire, "g", topic_id)
            assert holder.offsets() == [0, 1]
            clock.ahead_ms = jump_ms
            assert other.offsets(max_wait_ms=200) == [], "the lock is not over"
            assert holder.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE)) is ErrorCode.NONE
            clock.ahead_ms = 0
            assert other.offsets(max_wait_ms=WAIT_MS) == [1], "the delay ends by itself"

    async def serve() -> None:
        server = Server(BrokerSettings(data_dir=tmp_path, port=0), clock=clock)
        await server.start()
        try:
            await asyncio.to_thread(work, server.bootstrap)
        finally:
            await server.stop()

    asyncio.run(serve())
