"""What all connections do together: who is connected, how much is under way, and the counts that metrics show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.client import Client
from headrace.broker.settings import BrokerSettings

if TYPE_CHECKING:
    from headrace.broker.connection import Connection

# Kinds of client software told apart in the log: more than anybody runs, few enough to keep.
SOFTWARE_KINDS_MAX = 100


class Traffic:
    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.connections: set[Connection] = set()
        self._held: set[Connection] = set()
        self._software: set[tuple[str, str]] = set()
        self.inflight_bytes = 0
        self._room_made = False
        self._resuming = False
        # Requests of which a part has been read.
        self.unfinished_bytes = 0
        self.requests: dict[int, int] = {}
        self.received_bytes = 0
        self.rejected_connections = 0
        self.refused = 0
        self.failed = 0
        self.pauses = 0

    def admit(self, connection: Connection) -> bool:
        if len(self.connections) >= self._settings.connections_max:
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

    @property
    def is_full(self) -> bool:
        return self.inflight_bytes >= self._settings.inflight_bytes_max

    @property
    def has_too_much_unfinished(self) -> bool:
        return self.unfinished_bytes >= self._settings.inflight_bytes_max

    def add_inflight(self, change_bytes: int) -> None:
        was_full = self.is_full
        self.inflight_bytes += change_bytes
        if was_full and not self.is_full:
            self._room_made = True
            if not self._resuming:
                self._resume_held()

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
        return _hang_up([one for one in self.connections if one.takes_nothing_since_s(now_s) > limit_s])


def _hang_up(connections: list[Connection]) -> int:
    for connection in connections:
        connection.abort()
    return len(connections)
