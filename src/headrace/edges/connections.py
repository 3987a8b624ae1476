"""TCP connections that send lines, in the thread of their edge."""

from __future__ import annotations

import selectors
import socket

from headrace.edges.line_reader import LineReader

RECEIVE_BYTES = 65_536


class Connections:
    """Accepts connections and reads their lines. A connection over the limit is closed at once, and counted."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        *,
        connections_max: int,
        line_bytes_max: int,
    ) -> None:
        listener.setblocking(False)
        listener.listen()
        self._listener = listener
        self._selector = selector
        self._connections_max = connections_max
        self._line_bytes_max = line_bytes_max
        self._readers: dict[socket.socket, LineReader] = {}
        self._too_long_before = 0
        self.accepted = 0
        self.rejected = 0
        selector.register(listener, selectors.EVENT_READ)

    @property
    def too_long(self) -> int:
        """Lines that were skipped."""
        return self._too_long_before + sum(reader.too_long for reader in self._readers.values())

    def receive(self, ready: socket.socket) -> list[bytes]:
        """The lines of a socket that the selector reports as ready."""
        if ready is self._listener:
            self._accept()
            return []
        try:
            data = ready.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""  # the sender has reset it
        reader = self._readers[ready]
        if data:
            return reader.feed(data)
        lines = reader.finish()
        self._close(ready)
        return lines

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return  # it was reset before
        if len(self._readers) >= self._connections_max:
            self.rejected += 1
            accepted.close()
            return
        self.accepted += 1
        accepted.setblocking(False)
        self._readers[accepted] = LineReader(self._line_bytes_max)
        self._selector.register(accepted, selectors.EVENT_READ)

    def _close(self, connection: socket.socket) -> None:
        self._too_long_before += self._readers.pop(connection).too_long
        self._selector.unregister(connection)
        connection.close()

    def close(self) -> None:
        for connection in [*self._readers]:
            self._close(connection)
        self._selector.unregister(self._listener)
        self._listener.close()
