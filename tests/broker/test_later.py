"""A response that is ready later reaches whoever waits for it, whichever comes first."""

from __future__ import annotations

import asyncio

from headrace.broker.later import Later


def test_response_reaches_the_callback_whichever_comes_first() -> None:
    responses: list[str] = []
    later: Later[str] = Later()
    later.when_ready(responses.append)
    assert responses == []
    later.ready("a")
    ready: Later[str] = Later()
    ready.ready("b")
    ready.when_ready(responses.append)
    assert responses == ["a", "b"]


def test_response_is_awaited() -> None:
    async def scenario() -> str:
        later: Later[str] = Later()
        asyncio.get_running_loop().call_soon(later.ready, "a")
        return await later

    assert asyncio.run(scenario()) == "a"
