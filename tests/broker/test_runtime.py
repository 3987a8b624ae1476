"""Threads for work that may wait: an archive that hangs does not delay the disk."""

from __future__ import annotations

import asyncio
import threading

from headrace.broker.runtime import DISK_THREADS, Runtime
from headrace.testing.manual_clock import ManualClock


def test_archive_that_hangs_does_not_delay_reads_of_the_disk() -> None:
    async def scenario() -> None:
        runtime = Runtime(asyncio.get_running_loop(), ManualClock(), archive_threads=1)
        is_back = threading.Event()
        hanging = [runtime.in_thread(is_back.wait, reads_archive=True) for _ in range(DISK_THREADS + 1)]
        assert await runtime.in_thread(lambda: "read") == "read"
        assert not any(read.done() for read in hanging)
        is_back.set()
        assert all(await asyncio.gather(*hanging))
        runtime.close()

    asyncio.run(scenario())


def test_close_waits_for_work_that_runs_and_cancels_the_rest() -> None:
    async def scenario() -> None:
        runtime = Runtime(asyncio.get_running_loop(), ManualClock(), archive_threads=1)
        has_started, may_end = threading.Event(), threading.Event()
        done: list[str] = []

        def work() -> None:
            has_started.set()
            may_end.wait()
            done.append("first")

        first = runtime.in_thread(work, reads_archive=True)
        second = runtime.in_thread(lambda: done.append("second"), reads_archive=True)
        has_started.wait()
        closing = asyncio.create_task(asyncio.to_thread(runtime.close))
        await asyncio.wait([second])
        assert second.cancelled()
        assert not closing.done()
        may_end.set()
        await asyncio.gather(first, closing)
        assert done == ["first"]

    asyncio.run(scenario())
