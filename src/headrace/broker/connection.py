"""One client connection: frames in, responses out in the order of the requests, and the bounds that push back.

A request goes to its handler as soon as its frame is complete, also while earlier requests still wait (a long poll, an
fsync); only the responses keep the order. The connection is not read while it has too many bytes in flight, or while
all connections together have too many and this one more than its share. So TCP slows down a fast sender, memory is
bounded, and no client is slowed down by the bytes of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from headrace.broker.client import Client, ClientMemory
from headrace.broker.dispatch import HANDLERS, Call, Handler
from headrace.broker.exchange import JOINED_BYTES_MAX, Exchange
from headrace.broker.frame_buffer import FrameBuffer, FrameTooLarge
from headrace.broker.handlers.api_versions import unsupported_version
from headrace.broker.later import Later
from headrace.broker.parts import Parts
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.framing import (
    RequestHeader,
    read_request_head,
    skip_header_tags,
)
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.types import Buffer

logger = logging.getLogger(__name__)

# The response to a large request that takes long is encoded in a thread: it may be many times as large.
LONG_REQUEST_BYTES = 16_384
# Unsent bytes of responses in the transport from which on the connection is not read.
WRITE_BUFFER_BYTES_MAX = 262_144


class Connection(ClientMemory, asyncio.BufferedProtocol):
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = settings = parts.settings
        self._runtime = parts.runtime
        self._traffic = parts.traffic
        self._exchanges: deque[Exchange] = deque()
        # Requests of this wake-up that may be processed together with the next ones.
        self._gathered: list[tuple[Exchange, Any, Call]] = []
        self._buffer = FrameBuffer(settings.request_bytes_max)
        self.unread_bytes = 0
        self._reading = True
        self._takes_frames = False
        self._sends_soon = False
        self._closing = self._lost = False
        # Bytes of requests in progress and of responses that are not sent.
        self.held_bytes = 0
        self.unsent_bytes = 0
        self._unsent_seen_bytes = 0
        # Runs while a client over its quota is not read.
        self._pause: asyncio.TimerHandle | None = None
        self._last_call: Call | None = None
        # A request that takes long: the next requests of this connection wait for it.
        self._long: Exchange | None = None
        self.last_request_s = self._last_received_s = self._runtime.clock.monotonic_s()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's are of another class
        host, port = transport.get_extra_info("peername")[:2]
        local_host, local_port = transport.get_extra_info("sockname")[:2]
        self.client = Client(
            host=host,
            port=port,
            local_host=local_host,
            local_port=local_port,
            memory=self,
            pause=self.pause,
        )
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        if not self._traffic.admit(self):
            logger.warning(
                "connection refused: too many are open",
                extra={"client": self.client.address, "connections_max": self._traffic.connections_max},
            )
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not isinstance(exc, ConnectionError):
            logger.warning("connection lost: %s", exc, extra={"client": self.client.address})
        self._closing = self._lost = True
        if self._pause is not None:
            self._pause.cancel()
        self._traffic.left(self)
        self._account(-self.held_bytes)
        self._set_unread_bytes(0)
        self._exchanges.clear()
        self._gathered.clear()
        self._buffer.clear()
        self.client.disconnected()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.free()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._take_frames()
        if self.unread_bytes and self._reading:
            self._traffic.bound_unread()

    def pause_writing(self) -> None:
        """The client reads slower than it requests: bytes in the transport count as in flight."""
        self.unsent_bytes = self._transport.get_write_buffer_size()
        self._account(self.unsent_bytes)
        self._regulate()

    def resume_writing(self) -> None:
        self._account(-self.unsent_bytes)
        self.unsent_bytes = 0
        self.resume_if_possible()

    # Reading requests

    def _take_frames(self) -> None:
        """Handle the complete requests that were received, while there is room for them."""
        self._takes_frames = True
        try:
            while self._can_take():
                frame = self._buffer.next_frame()
                if frame is None:
                    break
                self._take(frame)
        except FrameTooLarge as error:
            self._reject(str(error), "request_bytes_max bounds a request")
        self._start_gathered()
        self._takes_frames = False
        self._set_unread_bytes(len(self._buffer))
        self._send()
        self._regulate()

    def _can_take(self) -> bool:
        if not self._has_room():
            # Sending the responses that are ready makes room; otherwise complete frames would wait for more bytes.
            self._start_gathered()
            self._send()
            if not self._has_room():
                return False
        return not self._closing

    def _take(self, frame: memoryview) -> None:
        self.last_request_s = self._runtime.clock.monotonic_s()
        try:
            header, position = read_request_head(frame)
            handler = HANDLERS.get(header.api_key)
            if handler is None:
                self._reject(f"unknown API key {header.api_key}", "the client may be newer than this broker")
                return
            codecs = handler.codecs(header.api_version)
            if codecs is None:
                self._respond_unserved(handler, header)
                return
            codec, response_codec = codecs
            if codec.flexible:
                position = skip_header_tags(frame, position)
            # librdkafka 2.16 adds three bytes to a Metadata request for all topics; Kafka ignores them too.
            request, kept_bytes = codec.decode_request(frame, position)
        except MalformedMessage as error:
            self._reject(f"a malformed request: {error}", "the bytes are not a Kafka request")
            return
        self._traffic.count_request(handler.api_key, len(frame))
        self._start(Exchange(handler, response_codec, header, kept_bytes), request)

    def _start(self, exchange: Exchange, request: Any) -> None:
        self._exchanges.append(exchange)
        self._account(exchange.held_bytes)
        call = self._call(exchange.header)
        gathered = self._gathered
        if gathered and (gathered[0][0].handler is not exchange.handler or gathered[0][2] is not call):
            self._start_gathered()
        if exchange.handler.together is not None:
            gathered.append((exchange, request, call))
        else:
            self._process(exchange, request, call)

    def _start_gathered(self) -> None:
        """Process the requests that were gathered. Their bytes are in the buffer until the next ones are received."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        exchange, request, call = gathered[0]
        if len(gathered) == 1:
            self._process(exchange, request, call)
            return
        together = exchange.handler.together
        assert together is not None, "only such requests are gathered"
        try:
            outcomes = together([request for _, request, _ in gathered], call)
        except Exception as error:
            self._failed(exchange, error)
            return
        for (one, _, _), outcome in zip(gathered, outcomes, strict=True):
            self._handled(one, outcome)

    def _process(self, exchange: Exchange, request: Any, call: Call) -> None:
        try:
            outcome = exchange.handler.function(request, call)
        except Exception as error:
            self._failed(exchange, error)
            return
        self._handled(exchange, outcome)

    def _handled(self, exchange: Exchange, outcome: Any) -> None:
        if isinstance(outcome, Later):
            outcome.when_ready(partial(self._respond, exchange))
        elif isinstance(outcome, Awaitable):
            if exchange.handler.is_long:
                self._long = exchange
            future = asyncio.ensure_future(outcome)
            future.add_done_callback(lambda finished: self._finished(exchange, finished))
        else:
            self._complete(exchange, outcome)

    def _call(self, header: RequestHeader) -> Call:
        """The context of a request: mostly the same as that of the previous one."""
        call = self._last_call
        client_id = header.client_id or ""
        if call is None or call.version != header.api_version or call.client_id != client_id:
            call = self._last_call = Call(
                parts=self._parts, client=self.client, version=header.api_version, client_id=client_id
            )
        return call

    def _respond_unserved(self, handler: Handler, header: RequestHeader) -> None:
        if handler.api_key is not ApiKey.API_VERSIONS:
            self._reject(
                f"{handler.api_key.name} version {header.api_version}",
                f"this broker serves versions {handler.versions[0]} to {handler.versions[1]}",
            )
            return
        oldest = replace(header, api_version=0)
        codecs = handler.codecs(oldest.api_version)
        assert codecs is not None, "the oldest version is always served"
        exchange = Exchange(handler, codecs[1], oldest, 0)
        self._exchanges.append(exchange)
        self._complete(exchange, unsupported_version())

    def _reject(self, what: str, hint: str) -> None:
        """The protocol has no response to such bytes: log the reason and close the connection."""
        self._start_gathered()
        self._traffic.malformed += 1
        logger.warning(
            "connection closed: %s",
            what,
            extra={"client": self.client.address, "hint": hint},
        )
        self._closing = True
        self._send()
        self._transport.close()

    # Sending responses

    def _respond(self, exchange: Exchange, response: Any) -> None:
        if not self._transport.is_closing():
            self._complete(exchange, response)

    def _finished(self, exchange: Exchange, future: asyncio.Future[Any], *, is_encoded: bool = False) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception):
            self._failed(exchange, error)
        elif self._transport.is_closing():
            return
        elif is_encoded:
            self._ready(exchange, future.result())
        elif exchange is self._long and exchange.held_bytes > LONG_REQUEST_BYTES:
            encoding = self._runtime.in_thread(partial(exchange.encode, future.result()))
            encoding.add_done_callback(lambda encoded: self._finished(exchange, encoded, is_encoded=True))
        else:
            self._complete(exchange, future.result())

    def _failed(self, exchange: Exchange, error: Exception) -> None:
        # A rejection for which the response has no error code is a bug of its handler.
        if isinstance(error, RequestRejected) and exchange.handler.has_error_code:
            if not self._transport.is_closing():
                self._complete(exchange, exchange.handler.rejection(error))
            return
        name = exchange.handler.api_key.name
        logger.error("%s failed", name, exc_info=error, extra={"client": self.client.address})
        self._traffic.failed += 1
        self._closing = True
        self._transport.close()

    def _complete(self, exchange: Exchange, response: Any) -> None:
        """Encode the response (None: the client expects none), and send every response whose turn it is."""
        response_bytes = 0
        if response is not None:
            try:
                response_bytes = exchange.encode(response)
            except Exception as error:
                self._failed(exchange, error)
                return
        self._ready(exchange, response_bytes)

    def _ready(self, exchange: Exchange, response_bytes: int) -> None:
        exchange.done = True
        if self._long is exchange:
            self._long = None
        self._account(response_bytes - exchange.held_bytes)
        exchange.held_bytes = response_bytes
        if response_bytes > JOINED_BYTES_MAX:
            # Sent immediately: a client that receives nothing is still read until its response is written.
            self._send()
        elif not self._takes_frames and not self._sends_soon:
            self._sends_soon = True
            self._runtime.loop.call_soon(self._send)

    def _send(self) -> None:
        """Send every response whose turn it is; responses that became ready together share one system call."""
        self._sends_soon = False
        exchanges = self._exchanges
        parts: list[Buffer] = []
        size = 0
        while exchanges and exchanges[0].done:
            exchange = exchanges.popleft()
            parts += exchange.parts
            size += exchange.held_bytes
        if size:
            self._account(-size)
        if parts and not self._transport.is_closing():
            self._write(parts, size)
        if not self._reading:
            self.resume_if_possible()

    def _write(self, parts: list[Buffer], size: int) -> None:
        was_slow = self.unsent_bytes > 0
        if size <= JOINED_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        if was_slow:
            # Otherwise `pause_writing` has counted it, if the client does not receive it immediately.
            self.unsent_bytes += size
            self._account(size)

    # Bounds

    def _account(self, change_bytes: int) -> None:
        self.held_bytes += change_bytes
        self._traffic.add_inflight(change_bytes)

    def _set_unread_bytes(self, unread_bytes: int) -> None:
        self._traffic.unread_bytes += unread_bytes - self.unread_bytes
        self.unread_bytes = unread_bytes

    def _has_room(self) -> bool:
        return (
            len(self._exchanges) < self._settings.connection_requests_max
            and self.held_bytes < self._settings.connection_bytes_max
            and not self.unsent_bytes
            and self._long is None
            and self._pause is None
            and self._traffic.has_room(self.held_bytes)
        )

    def may_wait(self) -> bool:
        return not self._traffic.is_full or self.held_bytes < self._traffic.share_bytes

    def response_room_bytes(self) -> int:
        own_bytes = self._settings.connection_bytes_max - self.held_bytes
        # A client that holds almost nothing gets a batch even if the memory is full: otherwise none would progress.
        least_bytes = 1 if self.held_bytes < JOINED_BYTES_MAX else 0
        return max(least_bytes, min(own_bytes, self._traffic.room_bytes(self.held_bytes)))

    def hold(self, change_bytes: int) -> None:
        if not self._lost:
            self._account(change_bytes)

    def pause(self, seconds: float) -> None:
        """Read no request for a while: so a client that ignores its throttle time stays within its quota too."""
        loop = self._runtime.loop
        if self._pause is not None:
            if self._pause.when() >= loop.time() + seconds:
                return
            self._pause.cancel()
        self._pause = loop.call_later(seconds, self._pause_is_over)
        self._regulate()

    def _pause_is_over(self) -> None:
        self._pause = None
        self.resume_if_possible()

    def _regulate(self) -> None:
        if self._reading and not self._has_room() and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()
            self._traffic.hold(self)
            if self._traffic.is_full:
                self.stop_waiting()

    def resume_if_possible(self) -> None:
        """There is room again: handle what was received, then continue to read."""
        if self._reading or self._closing or self._takes_frames or not self._has_room():
            return
        self._reading = True
        self._traffic.release(self)
        self._take_frames()
        if self._reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def stop_waiting(self) -> None:
        """Respond to its waiting fetches now, because this connection holds more than its share of the memory."""
        self._log_debt("client holds more than its share of the memory for requests and responses")
        for waiter in tuple(self.client.waiters):
            waiter.wake()

    def shed(self) -> None:
        """Close the connection of a client that does not receive its responses."""
        self._log_debt("connection closed: the client does not receive its responses")
        self.abort()

    def reject_unread(self) -> None:
        if not self._closing:
            self._reject("too many unfinished requests", "inflight_bytes_max bounds them; send again later")
            self._transport.abort()  # otherwise its bytes stay here until the client receives its responses

    def _log_debt(self, what: str) -> None:
        now_s = self._runtime.clock.monotonic_s()
        repeated = self._parts.log_throttle.suppressed(now_s, what, self.client.address)
        if repeated is not None:
            logger.warning(
                what,
                extra={
                    "client": self.client.address,
                    "client_id": self._last_call.client_id if self._last_call is not None else "",
                    "held_bytes": self.held_bytes,
                    "unsent_bytes": self.unsent_bytes,
                    "hint": "read responses as fast as they are requested; connection_bytes_max, inflight_bytes_max "
                    "and stuck_connection_ms_max are the bounds",
                },
            )

    def receives_nothing_since_s(self, now_s: float) -> float:
        """For how long the client has received no byte of its responses; measured between calls."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes != self._unsent_seen_bytes:
            self._unsent_seen_bytes = unsent_bytes
            self._last_received_s = now_s
        return now_s - self._last_received_s

    def close(self) -> None:
        """Close when the responses that are ready are sent."""
        self._closing = True
        self._transport.close()

    def abort(self) -> None:
        """Close immediately, because this client may never receive its responses."""
        self._closing = True
        self._transport.abort()
