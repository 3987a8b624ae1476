"""A response that is ready later: its request waits for a callback, and needs no task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

ResponseT = TypeVar("ResponseT")

_NOT_READY: Any = object()


class Later(Generic[ResponseT]):
    """Whoever completes the response calls `ready`, once, in the event loop."""

    __slots__ = ("_respond", "_response")

    def __init__(self) -> None:
        self._response: ResponseT = _NOT_READY
        self._respond: Callable[[ResponseT], None] | None = None

    def ready(self, response: ResponseT) -> None:
        if self._respond is not None:
            self._respond(response)
        else:
            self._response = response

    def when_ready(self, respond: Callable[[ResponseT], None]) -> None:
        """Call `respond` with the response, immediately if it is ready. There is one such call."""
        if self._response is not _NOT_READY:
            respond(self._response)
        else:
            self._respond = respond

    def __await__(self) -> Generator[Any, None, ResponseT]:
        future: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()
        self.when_ready(future.set_result)
        return future.__await__()
