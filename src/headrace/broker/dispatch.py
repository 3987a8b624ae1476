"""Which function serves which API. Handlers register themselves; ApiVersions lists them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from headrace.broker.client import Client
from headrace.broker.configs.definitions import INT32_MAX
from headrace.broker.parts import Parts
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.codec import Codec, codec
from headrace.protocol.types import MESSAGE_INFO

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


class Call(Struct, frozen=True, kw_only=True):
    """The context of a request: the client, the version of the API, and the parts of the broker."""

    parts: Parts
    client: Client
    version: int
    client_id: str

    def throttle_time_ms(self, key: str, count_bytes: int) -> int:
        """Count what the client sent or receives. If it exceeds its quota, its connection is not read for that time."""
        now_s = self.parts.runtime.clock.monotonic_s()
        pause_s = self.parts.byte_rates.pause_s(key, self.client_id, count_bytes, now_s)
        if pause_s > 0:
            self.client.pause(pause_s)
        return min(math.ceil(pause_s * 1000), INT32_MAX)


class Handler(Struct, frozen=True, kw_only=True):
    """One API: the range that it serves, and the function, which returns the response, a `Later` or an awaitable of it.

    If the function raises RequestRejected, the response is its `rejection`.
    `None` instead of a response means that the client expects no response (Produce with acks=0).
    """

    api_key: ApiKey
    versions: tuple[int, int]
    advertised: tuple[int, int]
    request: type[Any]
    response: type[Any]
    function: Callable[[Any, Call], Any | Awaitable[Any]]
    is_long: bool
    """It runs in turns with those of others (`turns`), and its response may be large: later requests of the connection
    wait for it."""
    together: Callable[[Sequence[Any], Call], Sequence[Any | Awaitable[Any]]] | None
    """What the function returns for each of several requests that a connection received at once, if there is a cheaper
    way to process them."""
    _codecs: dict[int, tuple[Codec[Any], Codec[Any]]] = field(default_factory=dict)

    def codecs(self, version: int) -> tuple[Codec[Any], Codec[Any]] | None:
        """How requests and responses of this version are read and written; None for one that is not served."""
        made = self._codecs.get(version)
        if made is None and self.versions[0] <= version <= self.versions[1]:
            made = self._codecs[version] = (codec(self.request, version), codec(self.response, version))
        return made

    @property
    def has_error_code(self) -> bool:
        return "error_code" in self.response.__struct_fields__

    def rejection(self, rejected: RequestRejected) -> Any:
        """The response with the error code and, if it has a field for it, the message."""
        message = {}
        if "error_message" in self.response.__struct_fields__:
            message["error_message"] = rejected.message
        return self.response(error_code=rejected.code, **message)


HANDLERS: dict[int, Handler] = {}


def handles(
    api_key: ApiKey,
    *,
    versions: tuple[int, int],
    advertised: tuple[int, int] | None = None,
    is_long: bool = False,
    together: Callable[[Sequence[Any], Call], Sequence[Any | Awaitable[Any]]] | None = None,
) -> Callable[[HandlerT], HandlerT]:
    """Register the function below as the handler of an API; a second one for the same API is a bug."""

    def register(function: HandlerT) -> HandlerT:
        assert api_key not in HANDLERS, f"{api_key.name} is handled twice"
        messages = {info.is_request: cls for cls, info in MESSAGE_INFO.items() if info.api_key == api_key}
        HANDLERS[api_key] = Handler(
            api_key=api_key,
            versions=versions,
            advertised=advertised or versions,
            request=messages[True],
            response=messages[False],
            function=function,
            is_long=is_long,
            together=together,
        )
        return function

    return register
