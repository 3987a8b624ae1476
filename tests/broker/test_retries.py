"""Work that failed is retried until it succeeds."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker import retries
from headrace.broker.retries import Retries, until_done


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RETRY_MS_MIN", 1)
    monkeypatch.setattr(retries, "RETRY_MS_MAX", 2)


def test_work_is_retried_until_it_succeeds_and_each_failure_is_reported() -> None:
    reported: list[Exception] = []

    async def attempt() -> str:
        if len(reported) < 3:
            raise OSError(f"failure {len(reported)}")
        return "done"

    assert asyncio.run(until_done(attempt, on_failure=reported.append)) == "done"
    assert [str(failure) for failure in reported] == ["failure 0", "failure 1", "failure 2"]


def test_failure_that_a_retry_cannot_help_ends_the_attempts() -> None:
    reported: list[Exception] = []

    async def attempt() -> None:
        raise OSError if not reported else ValueError

    with pytest.raises(ValueError):
        asyncio.run(until_done(attempt, on_failure=reported.append, fails_on=ValueError))
    assert [type(failure) for failure in reported] == [OSError]


def test_failed_work_is_retried_together_and_each_piece_once() -> None:
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        retried: asyncio.Future[list[str]] = loop.create_future()
        failed: Retries[str] = Retries(loop, lambda: retried.set_result(failed.take()))
        failed.add(["a", "b"])
        failed.add(["b", "c"])
        assert await retried == ["a", "b", "c"]
        assert not failed

    asyncio.run(fail())


def test_nothing_is_retried_after_close() -> None:
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        calls: list[None] = []
        closed: Retries[str] = Retries(loop, lambda: calls.append(None))
        closed.add(["a"])
        closed.close()
        closed.add(["b"])
        other: asyncio.Future[None] = loop.create_future()
        later: Retries[str] = Retries(loop, lambda: other.set_result(None))
        later.add(["c"])
        await other  # which was due after the first one
        assert calls == []

    asyncio.run(fail())
