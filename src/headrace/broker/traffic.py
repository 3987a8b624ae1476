"""All connections together: how many they are, the memory that they share, and the counts for metrics."""

from __future__ import annotations

from typing import Protocol

from headrace.broker import descriptors
from headrace.broker.client import Client
from headrace.broker.settings import BrokerSettings

# Kinds of client software that are logged: more than any installation has.
SOFTWARE_KINDS_MAX = 100


class Connection(Protocol):
    held_bytes: int
    """Requests in progress, and responses that the client has not received."""
    unsent_bytes: int
    """Of these, responses that the client is slow to receive."""
    unread_bytes: int
    """Received bytes that are not a whole request, or wait for room."""
    last_request_s: float

    def resume_if_possible(self) -> None:
        """Read on, if there is room."""

    def stop_waiting(self) -> None:
        """Respond to the fetches that wait."""

    def shed(self) -> None:
        """Close a connection whose client does not receive its responses."""

    def reject_unread(self) -> None:
        """Close a connection with too many unread bytes."""

    def receives_nothing_since_s(self, now_s: float) -> float:
        """For how long the client has received no byte of its responses."""

    def close(self) -> None:
        """Close when the responses are sent."""

    def abort(self) -> None:
        """Close immediately."""


class Traffic:
    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._bytes_max = settings.inflight_bytes_max
        self.connections: set[Connection] = set()
        self.connections_max = descriptors.connections_max(
            settings.connections_max, descriptors.current_limit()
        )
        self._held: set[Connection] = set()
        self._software: set[tuple[str, str]] = set()
        self.inflight_bytes = 0
        self._room_made = False
        self._resuming = False
        # Requests that were received in part, or wait for room.
        self.unread_bytes = 0
        self.requests: dict[int, int] = {}
        self.received_bytes = 0
        self.rejected_connections = 0
        self.malformed = 0
        self.failed = 0
        self.pauses = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.missed_records = 0
        self.storage_failures = 0

    def admit(self, connection: Connection) -> bool:
        if len(self.connections) >= self.connections_max:
            self.rejected_connections += 1
            return False
        self.connections.add(connection)
        return True

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._held.discard(connection)

    def is_new_software(self, client: Client) -> bool:
        """Whether this is the first client of its kind. Clients choose the name, so the number of kinds is bounded."""
        software = (client.software_name, client.software_version)
        if software in self._software or len(self._software) >= SOFTWARE_KINDS_MAX:
            return False
        self._software.add(software)
        return True

    def count_request(self, api_key: int, frame_bytes: int) -> None:
        self.requests[api_key] = self.requests.get(api_key, 0) + 1
        self.received_bytes += frame_bytes

    # The memory that all connections share

    @property
    def is_full(self) -> bool:
        return self.inflight_bytes >= self._bytes_max

    @property
    def share_bytes(self) -> int:
        """The bytes that a connection may hold even if the memory is full."""
        return self._bytes_max // max(1, len(self.connections))

    def has_room(self, held_bytes: int) -> bool:
        """Whether a connection that holds this many bytes may read one more request.

        If the memory is full, only connections that hold more than their share stop.
        """
        if self.inflight_bytes < self._bytes_max:
            return True
        return held_bytes < self.share_bytes and self.inflight_bytes < 2 * self._bytes_max

    def room_bytes(self, held_bytes: int) -> int:
        """How many more bytes a connection may hold."""
        return max(self._bytes_max - self.inflight_bytes, self.share_bytes - held_bytes, 0)

    def add_inflight(self, change_bytes: int) -> None:
        before_bytes = self.inflight_bytes
        self.inflight_bytes = after_bytes = before_bytes + change_bytes
        most = self._bytes_max
        if change_bytes > 0:
            if after_bytes >= most > before_bytes:
                self._stop_waiting()
            if after_bytes >= 2 * most:
                self._shed()
        elif after_bytes < most <= before_bytes or after_bytes < 2 * most <= before_bytes:
            self._room_made = True
            if not self._resuming:
                self._resume_held()

    def bound_unread(self) -> None:
        """Close the connection with the most unread bytes, if all unread bytes together take too much memory.

        If the connections were only paused, their requests would never be complete. Paused connections count too.
        """
        if self.unread_bytes >= self._bytes_max:
            max(self.connections, key=lambda one: one.unread_bytes).reject_unread()

    def _stop_waiting(self) -> None:
        """The memory is full: respond to the waiting fetches of connections that hold more than their share."""
        share_bytes = self.share_bytes
        for connection in tuple(self.connections):
            if connection.held_bytes >= share_bytes:
                connection.stop_waiting()

    def _shed(self) -> None:
        """Even the shares are used up: close the connection with the most unsent bytes."""
        worst = max(self.connections, key=lambda one: one.unsent_bytes, default=None)
        if worst is not None and worst.unsent_bytes:
            worst.shed()

    def _resume_held(self) -> None:
        """A connection that resumes may fill and free the last room again: hence a loop, and no recursion."""
        self._resuming = True
        try:
            while self._room_made:
                self._room_made = False
                for connection in tuple(self._held):
                    connection.resume_if_possible()
        finally:
            self._resuming = False

    def hold(self, connection: Connection) -> None:
        """The connection is not read; it resumes when there is room."""
        self._held.add(connection)
        self.pauses += 1

    def release(self, connection: Connection) -> None:
        self._held.discard(connection)

    @property
    def held_connections(self) -> int:
        return len(self._held)

    def close_idle(self, now_s: float) -> int:
        """Close connections without requests for a long time; how many there were."""
        limit_s = self._settings.idle_connection_ms_max / 1000
        idle = [one for one in self.connections if now_s - one.last_request_s > limit_s]
        for connection in idle:
            connection.abort()
        return len(idle)

    def close_stuck(self, now_s: float) -> int:
        """Close connections whose clients receive nothing: their responses fill the shared memory."""
        limit_s = self._settings.stuck_connection_ms_max / 1000
        stuck = [one for one in self.connections if one.receives_nothing_since_s(now_s) > limit_s]
        for connection in stuck:
            connection.shed()
        return len(stuck)
