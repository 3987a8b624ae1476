"""One client connection: frames in, answers out in the order of the requests, and the bounds that push back.

A request goes to its handler as soon as its frame is complete, also while earlier requests still wait (a long poll, an
fsync); only the answers keep the order. The connection is not read while it has too many bytes in flight, or while
all connections together have too many and this one more than its share. So TCP slows down a fast sender, memory is
bounded, and no client is slowed down by the bytes of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from headrace.broker.answer import JOINED_BYTES_MAX, Answer
from headrace.broker.client import Client, ClientMemory
from headrace.broker.dispatch import HANDLERS, Call, Handler
from headrace.broker.frame_buffer import FrameBuffer, FrameTooLarge
from headrace.broker.handlers.api_versions import unsupported_version
from headrace.broker.log_throttle import LogThrottle
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.traffic import Traffic
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.framing import (
    RequestHeader,
    read_request_head,
    skip_header_tags,
)
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.types import Buffer

logger = logging.getLogger(__name__)

# The answer to a larger request that takes long is encoded in a thread: it may be many times as large.
LONG_REQUEST_BYTES = 16_384
# Unsent bytes of answers in the transport from which on the connection is not read.
WRITE_BUFFER_BYTES_MAX = 262_144


class Connection(ClientMemory, asyncio.BufferedProtocol):
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        runtime: Runtime,
        traffic: Traffic,
        log_throttle: LogThrottle,
        make_call: Callable[..., Call],
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._traffic = traffic
        self._log_throttle = log_throttle
        self._make_call = make_call
        self._answers: deque[Answer] = deque()
        self._buffer = FrameBuffer(settings.request_bytes_max)
        self.unread_bytes = 0
        self._reading = True
        self._takes_frames = False
        self._sends_soon = False
        self._closing = self._lost = False
        # Bytes of requests in progress and of answers that are not sent.
        self.held_bytes = 0
        self.unsent_bytes = 0
        self._unsent_seen_bytes = 0
        # Runs while a client over its quota is not read.
        self._pause: asyncio.TimerHandle | None = None
        self._last_call: Call | None = None
        # A request that takes long: the next requests of this connection wait for it.
        self._long: Answer | None = None
        self.last_request_s = self._last_received_s = runtime.clock.monotonic_s()

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
                extra={"client": f"{host}:{port}", "connections_max": self._traffic.connections_max},
            )
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not isinstance(exc, ConnectionError):
            logger.warning(
                "connection lost: %s", exc, extra={"client": f"{self.client.host}:{self.client.port}"}
            )
        self._closing = self._lost = True
        if self._pause is not None:
            self._pause.cancel()
        self._traffic.left(self)
        self._account(-self.held_bytes)
        self._set_unread_bytes(0)
        self._answers.clear()
        self._buffer.clear()
        self.client.gone()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.free()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._take_frames()
        if self.unread_bytes and self._reading:
            self._traffic.bound_unread()

    def pause_writing(self) -> None:
        """The client reads slower than it asks: bytes in the transport count as in flight."""
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
            self._refuse(str(error), "request_bytes_max bounds a request")
        self._takes_frames = False
        self._set_unread_bytes(len(self._buffer))
        self._send()
        self._regulate()

    def _can_take(self) -> bool:
        if not self._has_room():
            # Sending the answers that are ready makes room; otherwise complete frames would wait for more bytes.
            self._send()
        return self._has_room() and not self._closing

    def _take(self, frame: memoryview) -> None:
        self.last_request_s = self._runtime.clock.monotonic_s()
        try:
            header, position = read_request_head(frame)
            handler = HANDLERS.get(header.api_key)
            if handler is None:
                self._refuse(f"unknown API key {header.api_key}", "the client may be newer than this broker")
                return
            codecs = handler.codecs(header.api_version)
            if codecs is None:
                self._answer_unserved(handler, header)
                return
            codec, response_codec = codecs
            if codec.flexible:
                position = skip_header_tags(frame, position)
            # librdkafka 2.16 adds three bytes to a Metadata request for all topics; Kafka ignores them too.
            request, kept_bytes = codec.decode_request(frame, position)
        except MalformedMessage as error:
            self._refuse(f"a malformed request: {error}", "the bytes are not a Kafka request")
            return
        self._traffic.count_request(handler.api_key, len(frame))
        self._start(Answer(handler, response_codec, header, kept_bytes), request)

    def _start(self, answer: Answer, request: Any) -> None:
        self._answers.append(answer)
        self._account(answer.held_bytes)
        try:
            outcome = answer.handler.function(request, self._call(answer.header))
        except Exception as error:
            self._failed(answer, error)
            return
        if isinstance(outcome, Awaitable):
            if answer.handler.is_long:
                self._long = answer
            future = asyncio.ensure_future(outcome)
            future.add_done_callback(lambda finished: self._finished(answer, finished))
        else:
            self._complete(answer, outcome)

    def _call(self, header: RequestHeader) -> Call:
        """The context of a request: mostly the same as that of the previous one."""
        call = self._last_call
        client_id = header.client_id or ""
        if call is None or call.version != header.api_version or call.client_id != client_id:
            call = self._last_call = self._make_call(
                client=self.client, version=header.api_version, client_id=client_id
            )
        return call

    def _answer_unserved(self, handler: Handler, header: RequestHeader) -> None:
        if handler.api_key is not ApiKey.API_VERSIONS:
            self._refuse(
                f"{handler.api_key.name} version {header.api_version}",
                f"this broker serves versions {handler.versions[0]} to {handler.versions[1]}",
            )
            return
        oldest = replace(header, api_version=0)
        codecs = handler.codecs(oldest.api_version)
        assert codecs is not None, "the oldest version is always served"
        answer = Answer(handler, codecs[1], oldest, 0)
        self._answers.append(answer)
        self._complete(answer, unsupported_version())

    def _refuse(self, what: str, hint: str) -> None:
        """The protocol has no answer for such bytes: log the reason and close the connection."""
        self._traffic.refused += 1
        logger.warning(
            "connection closed: %s",
            what,
            extra={"client": f"{self.client.host}:{self.client.port}", "hint": hint},
        )
        self._closing = True
        self._send()
        self._transport.close()

    # Sending answers

    def _finished(self, answer: Answer, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception):
            self._failed(answer, error)
        elif self._transport.is_closing():
            return
        elif answer is self._long and answer.held_bytes > LONG_REQUEST_BYTES:
            encoding = self._runtime.in_thread(partial(answer.encode, future.result()))
            encoding.add_done_callback(lambda encoded: self._encoded(answer, encoded))
        else:
            self._complete(answer, future.result())

    def _encoded(self, answer: Answer, future: asyncio.Future[int]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception):
            self._failed(answer, error)
        elif not self._transport.is_closing():
            self._ready(answer, future.result())

    def _failed(self, answer: Answer, error: Exception) -> None:
        name = answer.handler.api_key.name
        logger.error(
            "%s failed", name, exc_info=error, extra={"client": f"{self.client.host}:{self.client.port}"}
        )
        self._traffic.failed += 1
        self._closing = True
        self._transport.close()

    def _complete(self, answer: Answer, response: Any) -> None:
        """Encode the answer (None: the client wants none), and send every answer whose turn it is."""
        answer_bytes = 0
        if response is not None:
            try:
                answer_bytes = answer.encode(response)
            except Exception as error:
                self._failed(answer, error)
                return
        self._ready(answer, answer_bytes)

    def _ready(self, answer: Answer, answer_bytes: int) -> None:
        answer.done = True
        if self._long is answer:
            self._long = None
        self._account(answer_bytes - answer.held_bytes)
        answer.held_bytes = answer_bytes
        if answer_bytes > JOINED_BYTES_MAX:
            # Sent at once: a client that receives nothing is still read until its answer is written.
            self._send()
        elif not self._takes_frames and not self._sends_soon:
            self._sends_soon = True
            self._runtime.loop.call_soon(self._send)

    def _send(self) -> None:
        """Send every answer whose turn it is; answers that became ready together share one system call."""
        self._sends_soon = False
        answers = self._answers
        parts: list[Buffer] = []
        size = 0
        while answers and answers[0].done:
            answer = answers.popleft()
            parts += answer.parts
            size += answer.held_bytes
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
            # Otherwise `pause_writing` has counted it, if the client does not receive it at once.
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
            len(self._answers) < self._settings.connection_requests_max
            and self.held_bytes < self._settings.connection_bytes_max
            and not self.unsent_bytes
            and self._long is None
            and self._pause is None
            and self._traffic.has_room(self.held_bytes)
        )

    def may_wait(self) -> bool:
        return not self._traffic.is_full or self.held_bytes < self._traffic.share_bytes

    def answer_room_bytes(self) -> int:
        own_bytes = self._settings.connection_bytes_max - self.held_bytes
        # A client that holds next to nothing gets a batch even if the memory is full: otherwise none would progress.
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
        """Answer its waiting fetches now, because this connection holds more than its share of the memory."""
        self._log_debt("client holds more than its share of the memory for requests and answers")
        for waiter in tuple(self.client.waiters):
            waiter.wake()

    def shed(self) -> None:
        """Close the connection of a client that does not receive its answers."""
        self._log_debt("connection closed: the client does not receive its answers")
        self.abort()

    def refuse_unread(self) -> None:
        if not self._closing:
            self._refuse("too many unfinished requests", "inflight_bytes_max bounds them; send again later")
            self._transport.abort()  # otherwise its bytes stay here until the client receives its answers

    def _log_debt(self, what: str) -> None:
        now_s = self._runtime.clock.monotonic_s()
        repeated = self._log_throttle.suppressed(now_s, what, self.client.host, self.client.port)
        if repeated is not None:
            logger.warning(
                what,
                extra={
                    "client": f"{self.client.host}:{self.client.port}",
                    "client_id": self._last_call.client_id if self._last_call is not None else "",
                    "held_bytes": self.held_bytes,
                    "unsent_bytes": self.unsent_bytes,
                    "hint": "read answers as fast as they are asked for; connection_bytes_max, inflight_bytes_max and "
                    "stuck_connection_ms_max are the bounds",
                },
            )

    def receives_nothing_since_s(self, now_s: float) -> float:
        """For how long the client has received no byte of its answers; measured between calls."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes != self._unsent_seen_bytes:
            self._unsent_seen_bytes = unsent_bytes
            self._last_received_s = now_s
        return now_s - self._last_received_s

    def close(self) -> None:
        """Close when the answers that are ready are sent."""
        self._closing = True
        self._transport.close()

    def abort(self) -> None:
        """Close at once, because this client may never receive its answers."""
        self._closing = True
        self._transport.abort()
