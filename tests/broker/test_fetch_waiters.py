"""Fetches that wait: woken by enough bytes, by their time-out, or by the end of their client."""

from __future__ import annotations

import asyncio

from headrace.broker.client import Client
from headrace.broker.fetch_waiters import FetchWaiter, FetchWaiters

FOREVER_S = 1_000


class Place:
    def __init__(self) -> None:
        self.waiters: set[FetchWaiter] = set()


def client() -> Client:
    return Client(host="h", port=1, local_host="h", local_port=2)


def test_fetch_is_woken_when_its_partitions_have_grown_enough() -> None:
    async def scenario() -> None:
        waiters, places, own = FetchWaiters(asyncio.get_running_loop(), 10), [Place(), Place()], client()
        waiter = waiters.register(places, client=own, missing_bytes=100, timeout_s=FOREVER_S)
        for place in places:
            assert place.waiters == own.waiters == {waiter}
        waiter.grown(60)
        assert not waiter.woken.done()
        waiter.grown(40)
        assert (waiter.woken.done(), waiter.has_grown) == (True, True)
        assert all(not place.waiters for place in places)
        assert not own.waiters
        assert len(waiters) == 0
        waiter.wake()

    asyncio.run(scenario())


def test_fetch_is_woken_by_its_timeout_and_by_a_disconnect() -> None:
    async def scenario() -> None:
        waiters, own = FetchWaiters(asyncio.get_running_loop(), 10), client()
        timed = waiters.register([Place()], client=client(), missing_bytes=1, timeout_s=0)
        patient = waiters.register([Place()], client=own, missing_bytes=1, timeout_s=FOREVER_S)
        await timed.woken
        assert not timed.has_grown
        assert not patient.woken.done()
        own.disconnected()
        assert (patient.woken.done(), patient.has_grown) == (True, False)

    asyncio.run(scenario())


def test_number_of_waiting_fetches_is_bounded_and_all_are_woken_at_the_stop() -> None:
    async def scenario() -> None:
        waiters = FetchWaiters(asyncio.get_running_loop(), 2)
        waiting = []
        for _ in range(2):
            assert not waiters.is_full
            waiting.append(waiters.register([Place()], client=client(), missing_bytes=1, timeout_s=FOREVER_S))
        assert waiters.is_full
        waiters.wake_all()
        assert all(waiter.woken.done() for waiter in waiting)
        assert not waiters.is_full

    asyncio.run(scenario())
