"""A proxy in front of a broker that drops the response to one produce request, and closes the connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from struct import Struct
from types import TracebackType
from typing import Self

from headrace.protocol.api_keys import ApiKey

_SIZE = Struct(">i")
_API_KEY = Struct(">h")
_CORRELATION_ID_POSITION = 4
_CORRELATION_ID = Struct(">i")
TIMEOUT_S = 30


class ResponseDropper:
    """`address` is what clients connect to; `drop_next()` arms it for the next produce request."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.dropped = threading.Event()
        self._armed = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._target: tuple[str, int] | None = None

    def serve(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._target = (host, int(port))
        self._start(self._accept)

    def drop_next(self) -> None:
        self.dropped.clear()
        self._armed = True

    def _accept(self) -> None:
        assert self._target is not None
        while True:
            try:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                broker = socket.create_connection(self._target)
            except OSError:
                return  # this or the broker was closed
            self._sockets.append(broker)
            connection = _Connection(self, client, broker)
            self._start(connection.pass_requests)
            self._start(connection.pass_responses)

    def drops(self, api_key: int) -> bool:
        """Whether the response to this request is the one to drop."""
        if not self._armed or api_key != ApiKey.PRODUCE:
            return False
        self._armed = False
        return True

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._sockets):
            _close(one)
        for thread in self._threads:
            thread.join(TIMEOUT_S)


class _Connection:
    def __init__(self, dropper: ResponseDropper, client: socket.socket, broker: socket.socket) -> None:
        self._dropper = dropper
        self._client = client
        self._broker = broker
        self._correlation_id: int | None = None

    def pass_requests(self) -> None:
        with contextlib.suppress(OSError):
            while frame := _receive(self._client):
                if self._dropper.drops(_API_KEY.unpack_from(frame)[0]):
                    (self._correlation_id,) = _CORRELATION_ID.unpack_from(frame, _CORRELATION_ID_POSITION)
                self._broker.sendall(_SIZE.pack(len(frame)) + frame)
        self._cut()

    def pass_responses(self) -> None:
        with contextlib.suppress(OSError):
            while frame := _receive(self._broker):
                if (
                    self._correlation_id is not None
                    and _CORRELATION_ID.unpack_from(frame)[0] == self._correlation_id
                ):
                    self._dropper.dropped.set()
                    break
                self._client.sendall(_SIZE.pack(len(frame)) + frame)
        self._cut()

    def _cut(self) -> None:
        _close(self._client)
        _close(self._broker)


def _receive(source: socket.socket) -> bytes:
    """One frame without its size; nothing at the end."""
    size = _read(source, _SIZE.size)
    return _read(source, _SIZE.unpack(size)[0]) if size else b""


def _read(source: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = source.recv(count - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
