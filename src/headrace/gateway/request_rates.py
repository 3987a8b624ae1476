"""Limits on the rate of requests, for each address that clients connect from."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from headrace.gateway.answers import error_response
from headrace.gateway.errors import TooManyRequests

ADDRESSES_MAX = 10_000
"""Whose rates are remembered. The ones that were silent for the longest time are forgotten."""

IPV6_NETWORK_BITS = 64
"""One client usually has all addresses of such a network."""


class _Bucket(Struct):
    tokens: float
    at_s: float


class RequestRates:
    """A token bucket for each client. `now_s` is of a clock that never goes back."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, client: str, now_s: float) -> float:
        """0 if a request is allowed now; otherwise in how many seconds the next one is."""
        bucket = self._buckets.pop(client, None)
        if bucket is None:
            bucket = _Bucket(self._burst, now_s)
        bucket.tokens = min(self._burst, bucket.tokens + (now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        self._buckets[client] = bucket
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self._per_s


class LimitedRates:
    """Middleware: one request more than a client's rate gets 429, before anything of it is read."""

    def __init__(
        self, app: ASGIApp, *, rates: RequestRates, clock: Callable[[], float], retry_after_s_max: int
    ) -> None:
        self._app = app
        self._rates = rates
        self._clock = clock
        self._retry_after_s_max = retry_after_s_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        wait_s = self._rates.take(client_of(scope), self._clock())
        if not wait_s:
            await self._app(scope, receive, send)
            return
        response = error_response(
            TooManyRequests(
                "too many requests from this address",
                hint="send fewer, with more records or receipts in each; requests_per_s_max in [gateway] is the rate",
            ),
            retry_after_s_max=self._retry_after_s_max,
            retry_after_s_min=math.ceil(wait_s),
        )
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(response)
        else:
            await response(scope, receive, send)


def client_of(scope: Scope) -> str:
    """The address; of IPv6, its network."""
    host = str(scope["client"][0]) if scope.get("client") else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
    return host
