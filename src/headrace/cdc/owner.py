"""Who runs a capture: a record in the topic of its positions, which each process writes when it opens the capture.

The broker rejects a fenced producer without the reason. Either another process has opened the capture, or the broker
aborted a transaction that was open for too long. The record tells them apart.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from headrace.cdc.envelope import Record
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed

KEY = b"owner"

APPEARS_S_MAX = 2.0
"""Another process fences this one a moment before its record is committed."""

_PAUSE_S = 0.1


class Owner(Struct, frozen=True, kw_only=True):
    """A process that has opened a capture."""

    id: str
    host: str
    pid: int
    opened_ms: int

    @classmethod
    def this_process(cls, now_ms: int) -> Owner:
        return cls(id=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid(), opened_ms=now_ms)

    def record(self) -> Record:
        return Record(key=KEY, value=msgspec.json.encode(self))

    def __str__(self) -> str:
        opened = datetime.fromtimestamp(self.opened_ms / 1_000, UTC).isoformat(timespec="seconds")
        return f"process {self.pid} on {self.host}, since {opened.replace('+00:00', 'Z')}"


def reason_of_fencing(
    capture: str, this: Owner, cluster: Cluster, positions: str
) -> BadCapture | SourceUnavailable:
    """The error of a process that was fenced. If nobody else has opened the capture, it may open it again."""
    deadline_s = time.monotonic() + APPEARS_S_MAX
    try:
        found = last_owner(cluster, positions)
        while found == this and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
            found = last_owner(cluster, positions)
    except HeadraceError as error:
        return SourceUnavailable(f"capture {capture} was fenced, and the reason cannot be read: {error}")
    if found == this:
        return SourceUnavailable(
            f"capture {capture}: the broker aborted its transaction, which was open for too long",
            hint="was this process suspended, or the broker overloaded?",
        )
    return BadCapture(
        f"capture {capture}: another process has opened it: {found}",
        hint="a capture runs in one process at a time; stop the other one",
    )


def last_owner(cluster: Cluster, positions: str) -> Owner | None:
    found = None
    for message in read_committed(cluster, positions):
        value = message.value()
        if message.key() == KEY and value is not None:
            found = msgspec.json.decode(value, type=Owner)
    return found
