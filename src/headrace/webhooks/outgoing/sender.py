"""One attempt to deliver a message: a signed POST, and the status of the answer.

The connections belong to one target. Redirects are not followed, proxies of the environment are not used, no cookie is
kept, and the body of an answer is thrown away.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from importlib.metadata import version

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar

from headrace.clock import Clock
from headrace.printable import printable
from headrace.redaction import redacted
from headrace.webhooks.outgoing.back_off import retry_after_ms
from headrace.webhooks.outgoing.dialling import AddressRejected, Lookup, checked_connector
from headrace.webhooks.outgoing.message import Outgoing, request_of
from headrace.webhooks.outgoing.outcomes import Answer, error_of
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.signing import Signer
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.outgoing.urls import parse_target_url

ANSWER_BYTES_MAX = 16_384
"""That are read and thrown away, so that the connection can be used again. With more, it is closed."""

ANSWER_S_MAX = 1.0
"""How long they may take. The status has come by then, and decides alone."""

HEADER_BYTES_MAX = 8_192
"""A line of the head of an answer; a longer one is a failed attempt."""

ERROR_CHARACTERS_MAX = 300


@functools.cache
def _user_agent() -> str:
    return f"headrace-webhook/{version('headrace')}"


class Sender:
    """Open it in the event loop that sends."""

    def __init__(
        self,
        target: Target,
        settings: OutgoingSettings,
        clock: Clock,
        *,
        lookup: Lookup = socket.getaddrinfo,
    ) -> None:
        rules = settings.address_rules(allow_inside=target.allow_inside)
        self._target = target
        self._url = parse_target_url(target.url, rules)
        self._signer = Signer(target.secrets)
        self._clock = clock
        self._session = ClientSession(
            connector=checked_connector(
                rules,
                connections_max=target.parallel,
                tls=ssl.create_default_context(),
                lookup=lookup,
            ),
            timeout=ClientTimeout(
                total=target.timeout_ms / 1000,
                sock_connect=min(settings.connect_ms_max, target.timeout_ms) / 1000,
            ),
            headers={"User-Agent": _user_agent(), **target.headers},
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=ANSWER_BYTES_MAX,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )

    async def close(self) -> None:
        await self._session.close()

    async def send(self, message: Outgoing) -> Answer:
        """What came of it. Only a cancellation is raised."""
        request = request_of(message, self._target.envelope)
        now_ms = self._clock.now_ms()
        headers = self._signer.headers(message.message_id, request.body, now_ms)
        headers["Content-Type"] = request.content_type
        start_s = self._clock.monotonic_s()
        try:
            async with self._session.post(
                self._url, data=request.body, headers=headers, allow_redirects=False
            ) as response:
                latency_ms = (self._clock.monotonic_s() - start_s) * 1000
                await _throw_away(response)
                return Answer(
                    status=response.status,
                    latency_ms=latency_ms,
                    error=error_of(response.status),
                    retry_after_ms=retry_after_ms(response.headers.get("Retry-After"), now_ms),
                )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            latency_ms = (self._clock.monotonic_s() - start_s) * 1000
            return Answer(status=None, latency_ms=latency_ms, error=self._reason(error))

    def _reason(self, error: BaseException) -> str:
        """Without anything that the receiver wrote."""
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        place = redacted(str(self._url.origin()))
        match cause:
            case AddressRejected():
                text = str(cause)
            case aiohttp.ServerTimeoutError() if "connect" in str(cause).lower():
                text = f"no connection to {place} in time"
            case TimeoutError():
                text = f"no answer within {self._target.timeout_ms / 1000:g} s"
            case ssl.SSLError():
                text = f"TLS: {getattr(cause, 'verify_message', '') or cause.reason or 'handshake failed'}"
            case socket.gaierror():
                text = f"the name {self._url.host} can't be resolved"
            case aiohttp.ServerDisconnectedError() | ConnectionResetError() | BrokenPipeError():
                text = "the connection was closed before an answer"
            case aiohttp.ClientPayloadError() | aiohttp.ClientResponseError():
                text = "the answer is not valid HTTP"
            case OSError():
                text = f"can't connect to {place}: {cause.strerror or type(cause).__name__}"
            case _:
                text = type(cause).__name__
        return printable(text)[:ERROR_CHARACTERS_MAX]


async def _throw_away(response: ClientResponse) -> None:
    """Read a small body to its end, so that the connection is used again; close the connection otherwise."""
    if response.content.at_eof():
        return
    left = ANSWER_BYTES_MAX
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            while not response.content.at_eof() and left > 0:
                left -= len(await response.content.readany())
    except (aiohttp.ClientError, OSError, TimeoutError):
        left = 0
    if not response.content.at_eof():
        response.close()
