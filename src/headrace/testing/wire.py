"""A small synchronous client for tests: any message of the protocol in any version, and bytes that are no message.

It has no retries, no reconnects and no metadata. Requests may be sent before earlier responses are received.

    with Wire(broker.bootstrap) as wire:
        response = wire.request(MetadataRequest(topics=None), version=9)
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.codec import codec
from headrace.protocol.framing import write_request_head
from headrace.protocol.types import MESSAGE_INFO

_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")

# A hang fails, a loaded machine does not: no working request takes nearly this long.
TIMEOUT_S = 60.0


class Disconnected(Exception):
    """The broker closed the connection."""


class Wire:
    """One connection. `request` sends a request and waits for the response; `send` and `receive` do one of both."""

    def __init__(
        self, bootstrap: str, *, client_id: str | None = "wire", receive_buffer_bytes: int | None = None
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.client_id = client_id
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            # Only a value that is set before the connection affects the window of the peer.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._sent: deque[tuple[int, type[Any], int]] = deque()

    # Messages

    def request(self, request: Any, *, version: int | None = None) -> Any:
        """Send a request and return its response. The default version is the newest of the message."""
        self.send(request, version=version)
        return self.receive()

    def send(self, request: Any, *, version: int | None = None, has_response: bool = True) -> int:
        """Send a request without waiting; returns its correlation id. `has_response=False` for Produce with acks=0."""
        version = MESSAGE_INFO[type(request)].versions[1] if version is None else version
        correlation_id = next(self._correlation_ids)
        self.send_frame(encode_request(request, version, correlation_id, self.client_id))
        if has_response:
            self._sent.append((correlation_id, response_class(type(request)), version))
        return correlation_id

    def receive(self) -> Any:
        """The response to the oldest request that waits for one; a wrong correlation id is an AssertionError."""
        correlation_id, response, version = self._sent.popleft()
        frame = self.receive_frame()
        (received_id,) = _CORRELATION.unpack_from(frame)
        assert received_id == correlation_id, (
            f"got the response to request {received_id} instead of {correlation_id}"
        )
        return decode_response(frame, response, version)

    # Bytes

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(_SIZE.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Disconnected(str(error)) from error

    def receive_frame(self) -> bytes:
        (size,) = _SIZE.unpack(self._receive_exactly(_SIZE.size))
        return self._receive_exactly(size)

    def _receive_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                part = self.socket.recv(count - len(received))
            except ConnectionResetError as error:
                raise Disconnected(str(error)) from error
            if not part:
                raise Disconnected(f"the broker closed the connection after {len(received)} of {count} bytes")
            received += part
        return bytes(received)

    def is_closed_by_broker(self, *, within_s: float = TIMEOUT_S) -> bool:
        """Whether the broker closes the connection within some time. Responses before that are discarded."""
        deadline_s = time.monotonic() + within_s
        try:
            while (left_s := deadline_s - time.monotonic()) > 0:
                self.socket.settimeout(left_s)
                if not self.socket.recv(65_536):
                    return True
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)
        return False

    def has_response(self, *, within_s: float) -> bool:
        """Whether bytes of a response arrive within some time. They are not consumed."""
        self.socket.settimeout(within_s)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(TIMEOUT_S)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def response_class(request: type[Any]) -> type[Any]:
    api_key = MESSAGE_INFO[request].api_key
    return next(cls for cls, info in MESSAGE_INFO.items() if info.api_key == api_key and not info.is_request)


def encode_request(request: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Header and message, without the size of the frame."""
    message_codec = codec(type(request), version)
    head = write_request_head(
        MESSAGE_INFO[type(request)].api_key,
        version,
        correlation_id,
        client_id,
        flexible=message_codec.flexible,
    )
    return head + message_codec.encode(request)


def decode_response(frame: bytes, response: type[Any], version: int) -> Any:
    message_codec = codec(response, version)
    position = _CORRELATION.size
    if message_codec.flexible and MESSAGE_INFO[response].api_key != ApiKey.API_VERSIONS:
        assert frame[position] == 0, "the broker sends no tags in response headers"
        position += 1
    return message_codec.decode(frame, position)
