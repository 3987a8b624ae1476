"""Which function serves which API. Handlers register themselves; ApiVersions lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec import Struct, field

from headrace.broker.client import Client
from headrace.broker.parts import Parts
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
        """Count what the client sent or receives; how long it has to pause for its quota."""
        now_s = self.parts.runtime.clock.monotonic_s()
        return self.parts.byte_rates.throttle_time_ms(
            self.client, self.client_id, key=key, count_bytes=count_bytes, now_s=now_s
        )


class Handler(Struct, frozen=True, kw_only=True):
    """One API: the range that it serves, and the function, which returns the response or an awaitable of it.

    `None` instead of a response means that the client wants no answer (Produce with acks=0).
    """

    api_key: ApiKey
    versions: tuple[int, int]
    advertised: tuple[int, int]
    request: type[Any]
    response: type[Any]
    function: Callable[[Any, Call], Any | Awaitable[Any]]
    is_long: bool
    """It is done in turns with those of others (`turns`), and its answer may be large: later requests of the connection
    wait until this one is answered."""
    _codecs: dict[int, tuple[Codec[Any], Codec[Any]]] = field(default_factory=dict)

    def codecs(self, version: int) -> tuple[Codec[Any], Codec[Any]] | None:
        """How requests and responses of this version are read and written; None for one that is not served."""
        made = self._codecs.get(version)
        if made is None and self.versions[0] <= version <= self.versions[1]:
            made = self._codecs[version] = (codec(self.request, version), codec(self.response, version))
        return made


HANDLERS: dict[int, Handler] = {}


def handles(
    api_key: ApiKey,
    *,
    versions: tuple[int, int],
    advertised: tuple[int, int] | None = None,
    is_long: bool = False,
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
        )
        return function

    return register
