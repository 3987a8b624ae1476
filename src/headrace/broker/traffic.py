"""What all connections do together: who is connected, how much is under way, and the counts that metrics show."""

from __future__ import annotations

from typing import Protocol

from headrace.broker import descriptors
from headrace.broker.client import Client
from headrace.broker.settings import BrokerSettings

# Kinds of client software told apart in the log: more than anybody runs, few enough to keep.
SOFTWARE_KINDS_MAX = 100


class Connection(Protocol):
    held_bytes: int
    """Requests that are being answered, and answers that the client has not received."""
    unsent_bytes: int
    """Of these, answers that the client is slow to receive."""
    unread_bytes: int
    """Received bytes that are not a whole request, or wait for room."""
    last_request_s: float

    def resume_if_possible(self) -> None:
        """Read on, if there is room."""

    def stop_waiting(self) -> None:
        """Answer the fetches that wait."""

    def shed(self) -> None:
        """Close a connection whose client does not receive its answers."""

    def refuse_unread(self) -> None:
        """Close a connection with too many unread bytes."""

    def takes_nothing_since_s(self, now_s: float) -> float:
        """For how long the client has received nothing of what waits for it."""

    def close(self) -> None:
        """Close when the answers are sent."""

    def abort(self) -> None:
        """Close at once."""


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
        self.refused = 0
        self.failed = 0
        self.pauses = 0

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
        """Whether this is the first client of its kind; kinds are made up by clients, so their number is bounded."""
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
        """What a connection may hold, however much the others do."""
        return self._bytes_max // max(1, len(self.connections))

    def has_room(self, held_bytes: int) -> bool:
        """Whether a connection that holds so much may take one more request.

        When the memory is full, only those stop that hold more than their share of it.
        """
        if self.inflight_bytes < self._bytes_max:
            return True
        return held_bytes < self.share_bytes and self.inflight_bytes < 2 * self._bytes_max

    def room_bytes(self, held_bytes: int) -> int:
        """How much more a connection that holds so much may hold."""
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
        """Close whose unread bytes are the most, if all of them together take too much memory.

        Not reading on would leave requests unfinished for ever. Whoever is not read from at the moment counts too.
        """
        if self.unread_bytes >= self._bytes_max:
            max(self.connections, key=lambda one: one.unread_bytes).refuse_unread()

    def _stop_waiting(self) -> None:
        """The memory is full: fetches are answered now where they belong to who holds more than its share."""
        share_bytes = self.share_bytes
        for connection in tuple(self.connections):
            if connection.held_bytes >= share_bytes:
                connection.stop_waiting()

    def _shed(self) -> None:
        """Even the shares are used up: hang up on who left most of its answers untaken."""
        worst = max(self.connections, key=lambda one: one.unsent_bytes, default=None)
        if worst is not None and worst.unsent_bytes:
            worst.shed()

    def _resume_held(self) -> None:
        """A connection that goes on may fill and free the last room again: a loop for that, not a call in a call."""
        self._resuming = True
        try:
            while self._room_made:
                self._room_made = False
                for connection in tuple(self._held):
                    connection.resume_if_possible()
        finally:
            self._resuming = False

    def hold(self, connection: Connection) -> None:
        """The connection stopped reading; it is told when there is room again."""
        self._held.add(connection)
        self.pauses += 1

    def release(self, connection: Connection) -> None:
        self._held.discard(connection)

    @property
    def held_connections(self) -> int:
        return len(self._held)

    def close_idle(self, now_s: float) -> int:
        """Hang up on clients that said nothing for long; how many there were."""
        limit_s = self._settings.idle_connection_ms_max / 1000
        return _hang_up([one for one in self.connections if now_s - one.last_request_s > limit_s])

    def close_stuck(self, now_s: float) -> int:
        """Hang up on clients that take nothing of their answers: these fill the memory that all share."""
        limit_s = self._settings.stuck_connection_ms_max / 1000
        stuck = [one for one in self.connections if one.takes_nothing_since_s(now_s) > limit_s]
        for connection in stuck:
            connection.shed()
        return len(stuck)


def _hang_up(connections: list[Connection]) -> int:
    for connection in connections:
        connection.abort()
    return len(connections)
