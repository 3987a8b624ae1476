"""The state of all alerts in the log: a compacted topic, written with the history in one transaction each time.

    ["owner"]                   the process that runs the alerts
    ["alert", NAME]             positions and counts
    ["key", NAME, KEY]          a key that is pending or fires, or did a moment ago
    ["group", NAME, GROUP]      when its messages were and will be
    ["message", ID, TARGET]     the outbox: a message that this target has not taken

The last process to open it owns it: the broker rejects what an earlier one writes.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from headrace.alerts.book import Book, Draft, Group, Loaded
from headrace.alerts.errors import AlertsFenced
from headrace.alerts.history import HISTORY_CONFIG, HISTORY_TOPIC, HistoryEvent
from headrace.alerts.message import Waiting
from headrace.alerts.notifying import Tracked
from headrace.clock import Clock
from headrace.events.errors import StoreUnavailable
from headrace.events.fenced_writer import FencedWriter, WriterLost
from headrace.events.records import OutRecord
from headrace.events.topics import message_bytes_max
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed

STATE_TOPIC = "headrace.alerts.state"

TIMEOUT_S = 30.0
"""How long a broker may be unavailable before everything is read again."""

TOPIC_APPEARS_S_MAX = 15.0

OWNER_APPEARS_S_MAX = 2.0
"""Another process fences this one a moment before its record is committed."""

_STATE_CONFIG = {"cleanup.policy": "compact"}
_OWNER = ("owner",)


class Owner(Struct, frozen=True, kw_only=True):
    """A process that has opened the state."""

    id: str
    host: str
    pid: int
    folder: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, with the alerts of {self.folder}"


class Stored(Struct, kw_only=True):
    """Everything in the state topic."""

    owner: Owner | None = None
    alerts: dict[str, Loaded] = {}
    waiting: dict[tuple[str, str], Waiting] = {}


def read_state(cluster: Cluster) -> Stored:
    """The committed state; empty if no alert has run yet."""
    latest: dict[bytes, bytes] = {}
    if STATE_TOPIC not in cluster.topics():
        return Stored()
    for message in read_committed(cluster, STATE_TOPIC):
        key, value = message.key() or b"", message.value()
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value
    stored = Stored()
    for key, value in latest.items():
        _add(stored, msgspec.json.decode(key, type=tuple[str, ...]), value)
    return stored


def _add(stored: Stored, key: tuple[str, ...], value: bytes) -> None:
    kind = key[0]
    if kind == "owner":
        stored.owner = msgspec.json.decode(value, type=Owner)
    elif kind == "message":
        stored.waiting[key[1], key[2]] = msgspec.json.decode(value, type=Waiting)
    else:
        loaded = stored.alerts.setdefault(key[1], Loaded())
        match kind:
            case "alert":
                loaded.book = msgspec.json.decode(value, type=Book)
            case "key":
                loaded.keys[key[2]] = msgspec.json.decode(value, type=Tracked)
            case "group":
                loaded.groups[key[2]] = msgspec.json.decode(value, type=Group)


class StateLog:
    """The one writer of the state."""

    def __init__(self, cluster: Cluster, clock: Clock, folder: str) -> None:
        self._cluster = cluster
        self._clock = clock
        self._owner = Owner(id=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid(), folder=folder)
        self._writer: FencedWriter | None = None

    def open(self) -> Stored:
        """Own the state, and read it. What an earlier owner has not committed is aborted."""
        self.close()
        for topic, config in ((STATE_TOPIC, _STATE_CONFIG), (HISTORY_TOPIC, HISTORY_CONFIG)):
            self._cluster.create_topic(topic, partitions=1, config=config, exist_ok=True)
        self._cluster.require_topics([STATE_TOPIC, HISTORY_TOPIC], appear_s_max=TOPIC_APPEARS_S_MAX)
        self._writer = FencedWriter(
            self._cluster.client_config(),
            topic=STATE_TOPIC,
            partition=0,
            message_bytes_max=message_bytes_max(self._cluster, STATE_TOPIC),
            timeout_s=TIMEOUT_S,
        )
        self.commit([self._state(_OWNER, self._owner)])
        return read_state(self._cluster)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def commit(self, records: Sequence[OutRecord]) -> None:
        """Write all of it or nothing. After an error, `open` shows what is written.

        AlertsFenced if another process owns the state; StoreUnavailable if it can be tried again.
        """
        assert self._writer is not None
        try:
            self._writer.commit(records)
        except WriterLost as lost:
            if lost.is_fenced and (found := self._other_owner()) is not None:
                raise AlertsFenced(
                    f"another process runs the alerts of this cluster: {found}",
                    hint="one process runs all alerts of a cluster; stop the other one",
                ) from lost
            raise StoreUnavailable(str(lost), hint="the state is read again") from lost

    def _other_owner(self) -> Owner | None:
        """None if no other process has opened the state: the broker aborted a transaction that was open too long."""
        deadline_s = self._clock.monotonic_s() + OWNER_APPEARS_S_MAX
        while True:
            found = read_state(self._cluster).owner
            if found is not None and found.id != self._owner.id:
                return found
            if self._clock.monotonic_s() >= deadline_s:
                return None
            time.sleep(0.1)

    # Records

    def records_of(self, name: str, draft: Draft) -> list[OutRecord]:
        return [
            self._state(("alert", name), draft.book),
            *(self._state(("key", name, key), tracked) for key, tracked in draft.keys.items()),
            *(self._state(("group", name, group), found) for group, found in draft.groups.items()),
            *self.history_records(draft.history),
        ]

    def history_records(self, events: Iterable[HistoryEvent]) -> list[OutRecord]:
        return [
            OutRecord(
                topic=HISTORY_TOPIC,
                key=event.alert.encode(),
                value=msgspec.json.encode(event),
                headers=(),
                timestamp_ms=self._clock.now_ms(),
            )
            for event in events
        ]

    def waiting_records(self, waiting: Iterable[Waiting]) -> list[OutRecord]:
        return [self._state(("message", *each.id), each) for each in waiting]

    def taken_records(self, ids: Iterable[tuple[str, str]]) -> list[OutRecord]:
        return [self._state(("message", *each), None) for each in ids]

    def _state(self, key: tuple[str, ...], content: Struct | None) -> OutRecord:
        return OutRecord(
            topic=STATE_TOPIC,
            key=msgspec.json.encode(key),
            value=None if content is None else msgspec.json.encode(content),
            headers=(),
            timestamp_ms=self._clock.now_ms(),
        )
