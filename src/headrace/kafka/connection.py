"""Requests that confluent-kafka has no call for, over a plain socket with Headrace's own codec.

It is for a few requests of administration, and for batches that are encoded already (`bulk_producer`).
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from collections.abc import Iterator
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

RESPONSE_BYTES_MAX = 100_000_000
"""A description of some thousand members is a megabyte; a larger size does not come from a Kafka broker."""

_SIZE = struct.Struct(">i")


class Connection:
    """To one broker. `request` sends a request and waits for the response."""

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

    def request(self, request: Any, response: type[Any], *, version: int) -> Any:
        return self.receive(self.send(request, version=version), response, version=version)

    def send(self, request: Any, *, version: int) -> int:
        """Send a request, and do not wait. Returns the id by which `receive` gets its response, in order."""
        correlation_id = next(self._correlation_ids)
        request_codec = codec(type(request), version)
        api_key = MESSAGE_INFO[type(request)].api_key
        head = write_request_head(
            api_key, version, correlation_id, "headrace-admin", flexible=request_codec.flexible
        )
        frame = head + request_codec.encode(request)
        with self._errors():
            self._socket.sendall(_SIZE.pack(len(frame)) + frame)
        return correlation_id

    def receive(self, correlation_id: int, response: type[Any], *, version: int) -> Any:
        response_codec = codec(response, version)
        with self._errors():
            received = self._receive_frame()
            if _SIZE.unpack_from(received) != (correlation_id,):
                raise EOFError("the response belongs to another request")
            return response_codec.decode(received, _SIZE.size + (1 if response_codec.flexible else 0))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
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
        request = DescribeConfigsRequest(resources=(wanted,))
        found = self.request(request, DescribeConfigsResponse, version=1).results[0].configs
        return next((each.value for each in found if each.name == name), None)

    def _receive_frame(self) -> bytes:
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        if not 0 < size <= RESPONSE_BYTES_MAX:
            raise EOFError(f"a response of {size} bytes")
        return self._receive(size)

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

    def __exit__(self, *_error: object) -> None:
        self._socket.close()
