"""Requests that confluent-kafka's admin client has no call for, over a plain socket with Headrace's own codec.

It is for a few requests that only read; records never go this way.
"""

from __future__ import annotations

import itertools
import socket
import struct
from types import TracebackType
from typing import Any, Self

from headrace.kafka.errors import RequestFailed
from headrace.protocol.codec import codec
from headrace.protocol.framing import write_request_head
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.types import MESSAGE_INFO

ANSWER_BYTES_MAX = 100_000_000
"""A description of some thousand members is a megabyte; a larger size does not come from a Kafka broker."""

_SIZE = struct.Struct(">i")


class Connection:
    """To one broker. `ask` sends a request and waits for the answer."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._address = f"{host}:{port}"
        self._correlation_ids = itertools.count(1)
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise RequestFailed(
                f"no broker answers at {self._address}: {error.strerror or error}",
                hint="is it running, and is this its address?",
            ) from error

    def ask(self, request: Any, response: type[Any], *, version: int) -> Any:
        try:
            return self._ask(request, response, version)
        except (OSError, EOFError) as error:
            raise RequestFailed(
                f"the connection to {self._address} failed: {error}",
                hint="queues need Headrace's broker, or Apache Kafka 4.2 or later; TLS and SASL are not supported here",
            ) from error

    def config(self, resource_type: int, resource: str, name: str) -> str | None:
        """A config that has to be requested by its name; None from a broker that does not have it."""
        wanted = DescribeConfigsResource(
            resource_type=resource_type, resource_name=resource, configuration_keys=(name,)
        )
        answer = self.ask(DescribeConfigsRequest(resources=(wanted,)), DescribeConfigsResponse, version=1)
        return next((each.value for each in answer.results[0].configs if each.name == name), None)

    def _ask(self, request: Any, response: type[Any], version: int) -> Any:
        correlation_id = next(self._correlation_ids)
        request_codec, response_codec = codec(type(request), version), codec(response, version)
        api_key = MESSAGE_INFO[type(request)].api_key
        head = write_request_head(
            api_key, version, correlation_id, "headrace-admin", flexible=request_codec.flexible
        )
        frame = head + request_codec.encode(request)
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise EOFError(f"an answer of {size} bytes")
        answer = self._receive(size)
        if _SIZE.unpack_from(answer) != (correlation_id,):
            raise EOFError("the answer belongs to another request")
        position = _SIZE.size + (1 if response_codec.flexible else 0)
        return response_codec.decode(answer, position)

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise EOFError("the connection was closed")
            received += part
        return bytes(received)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
