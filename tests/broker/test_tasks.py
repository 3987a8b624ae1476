"""Tasks that nobody awaits are kept until they are done."""

from __future__ import annotations

import asyncio
import gc
import weakref

from headrace.broker.tasks import Tasks


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
