"""Threads for work that may wait, and tasks that are not awaited."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

from headrace.broker.runtime import DISK_THREADS, Runtime, Tasks
from headrace.broker.settings import BrokerSettings
from headrace.log.filesystem import DiskFileSystem
from headrace.testing.manual_clock import ManualClock


def a_runtime() -> Runtime:
    settings = BrokerSettings(archive_read_threads=1)
    return Runtime(settings, DiskFileSystem(), ManualClock(), asyncio.get_running_loop())


def test_archive_that_hangs_does_not_delay_reads_of_the_disk() -> None:
    async def scenario() -> None:
        runtime = a_runtime()
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
        runtime = a_runtime()
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


def test_task_that_nothing_refers_to_is_not_collected() -> None:
    async def scenario() -> None:
        tasks = Tasks(asyncio.get_running_loop())
        done: list[str] = []
        awaited: list[weakref.ref[asyncio.Future[None]]] = []

        async def work() -> None:
            # Only this task refers to the future, and the future to this task.
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            awaited.append(weakref.ref(future))
            await future
            done.append("work")

        tasks.start(work())
        await asyncio.sleep(0)
        gc.collect()
        future = awaited[0]()
        assert future is not None
        future.set_result(None)
        await tasks.idle()
        assert done == ["work"]

    asyncio.run(scenario())


def test_idle_waits_for_tasks_that_tasks_start() -> None:
    async def scenario() -> None:
        tasks = Tasks(asyncio.get_running_loop())
        done: list[str] = []

        async def second() -> None:
            await asyncio.sleep(0)
            done.append("second")

        async def first() -> None:
            tasks.start(second())
            done.append("first")

        tasks.start(first())
        await tasks.idle()
        assert done == ["first", "second"]

    asyncio.run(scenario())


def test_cancel_ends_all_tasks() -> None:
    async def scenario() -> None:
        tasks = Tasks(asyncio.get_running_loop())
        forever = [tasks.start(asyncio.sleep(1_000)) for _ in range(2)]
        tasks.cancel()
        await tasks.idle()
        assert all(task.cancelled() for task in forever)

    asyncio.run(scenario())
