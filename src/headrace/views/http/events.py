"""Server-sent events to one follower. Its id is where the follower resumes, as browsers do by themselves.

The next step is taken when the last one is sent: a slow follower gets fewer and larger steps, and the server keeps
nothing for it but its result. One that reads nothing for a while is disconnected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.views.errors import ViewUnavailable
from headrace.views.following import Step
from headrace.views.http.answers import encoded, of_error, of_step

logger = logging.getLogger(__name__)

POLL_S = 0.2
"""Between two looks at the view: less than a batch takes."""

RETRY_S = 1.0
"""Between two attempts to reach a store that does not respond."""

HEARTBEAT_S = 15.0
"""Proxies close connections that are silent for longer, often after 30 s."""

SEND_S_MAX = 30.0
"""A follower that reads nothing for so long is disconnected. It can resume."""

NextStep = Callable[[], Awaitable[Step | None]]


def event_of(step: Step) -> bytes:
    name = "snapshot" if step.is_snapshot else "changes"
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (step.resume.encode(), name.encode(), encoded(of_step(step)))


async def events(first: Step | None, next_step: NextStep) -> AsyncIterator[bytes]:
    """The first step is taken already: its error is a response of its own."""
    yield b"retry: 1000\n\n"
    step, pause_s, silent_s = first, POLL_S, 0.0
    while True:
        if step is not None:
            yield event_of(step)
            silent_s = 0.0
        elif silent_s >= HEARTBEAT_S:
            yield b": heartbeat\n\n"
            silent_s = 0.0
        await asyncio.sleep(pause_s)
        silent_s += pause_s
        step, pause_s = None, POLL_S
        try:
            step = await next_step()
        except ViewUnavailable:
            pause_s = RETRY_S
        except HeadraceError as error:
            yield b"event: error\ndata: %b\n\n" % encoded(of_error(error))
            return


class EventStream(StreamingResponse):
    """Ends when the client is disconnected, or too slow; then calls `on_end`."""

    media_type = "text/event-stream"

    def __init__(
        self, content: AsyncIterator[bytes], *, on_end: Callable[[], None], send_s_max: float
    ) -> None:
        super().__init__(content, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._on_end = on_end
        self._send_s_max = send_s_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(self._send_s_max):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            logger.warning("a follower read nothing for %.0f s and is disconnected", self._send_s_max)
        except ClientDisconnect:
            pass
        finally:
            self._on_end()
