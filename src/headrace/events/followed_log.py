"""The log of one partition, followed into a database: what was read, what this process wrote, and where to read on.

Not thread-safe: the fenced log that it belongs to has the lock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec
from msgspec import Struct

from headrace.events.errors import EventsError
from headrace.events.log_database import LogDatabase
from headrace.events.partition_reader import PartitionReader
from headrace.events.records import InRecord, OutRecord
from headrace.events.topics import unavailable
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed

STABLE_S_MAX = 0.5
"""How long a read waits for transactions in flight, which take milliseconds."""

STABLE_POLL_S = 0.005


class LogSetup(Struct, frozen=True, kw_only=True):
    """The topics that are read: the first one has the events, and must be complete."""

    cluster: Cluster
    topics: tuple[str, ...]
    message_bytes_max: int
    timeout_s: float


class FollowedLog:
    """Connects at the first read."""

    def __init__(
        self, setup: LogSetup, number: int, database: LogDatabase, apply: Callable[[InRecord], None]
    ) -> None:
        self.number = number
        self._setup = setup
        self._database = database
        self._apply = apply
        self._reader = PartitionReader(setup.cluster.client_config(), timeout_s=setup.timeout_s)
        self._has_starts = False
        self._before_marker: set[str] = set()
        """Topics whose next offset is, or will be, the marker of this writer's last commit."""

    def close(self) -> None:
        self._reader.close()
        self._database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[[], None]]:
        """Rolled back at the end, unless it was finished by then."""
        is_finished = False

        def finish() -> None:
            nonlocal is_finished
            self._database.commit()
            is_finished = True

        self._database.begin()
        try:
            yield finish
        finally:
            if not is_finished:
                self._database.rollback()

    def advance(self, records: Sequence[OutRecord], offsets: Sequence[int]) -> None:
        """Move the positions over what was written, if nothing else was written in between.

        Between two transactions of this writer is the marker of the first one, which the broker writes a moment after
        the commit. If there is more, the position stays, and the next read meets all of it: `apply` skips known ones.
        """
        written: dict[str, list[int]] = {}
        for record, offset in zip(records, offsets, strict=True):
            if record.topic in self._setup.topics:
                written.setdefault(record.topic, []).append(offset)
        for topic, own in written.items():
            expected = self._database.position(topic) + (topic in self._before_marker)
            if own[0] == expected and own[-1] - own[0] == len(own) - 1:
                self._database.set_position(topic, own[-1] + 1)
                self._before_marker.add(topic)

    def refresh(self) -> None:
        """Read what other processes have committed.

        A commit is acknowledged a moment before it is visible, so transactions in flight are waited for; but not
        for long, because a killed writer may have left one open.
        """
        written = self._offsets(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        deadline_s = time.monotonic() + STABLE_S_MAX
        while True:
            ends = self._offsets(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
            if all(ends[topic] >= end for topic, end in written.items()) or time.monotonic() > deadline_s:
                break
            time.sleep(STABLE_POLL_S)
        for topic in tuple(self._before_marker):
            # Stable to here, so the marker is written; and there is room for nothing else.
            if ends[topic] == self._database.position(topic) + 1:
                self._database.set_position(topic, ends[topic])
                self._before_marker.discard(topic)
        self._read_to(ends)

    def read_all(self) -> int:
        """Up to the end of the log, and not only to its stable end; the number of records.

        Behind the open transaction of another program, committed events of the previous owner may be hidden.
        """
        return self._read_to(self._offsets(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED))

    def _read_to(self, ends: dict[str, int]) -> int:
        if not self._has_starts:
            self._find_starts()
        ranges = {
            Partition(topic, self.number): (self._database.position(topic), end)
            for topic, end in ends.items()
        }
        if all(first >= end for first, end in ranges.values()):
            return 0
        count = 0
        with self.transaction() as finish:
            for record in self._reader.read(ranges):
                self._apply(record)
                count += 1
            for each, (first, end) in ranges.items():
                self._database.set_position(each.topic, max(first, end))
            finish()
        self._before_marker -= {each.topic for each, (first, end) in ranges.items() if first < end}
        return count

    def _find_starts(self) -> None:
        """Rejected commands may be deleted by hand; an event may not, because every later state rests on it."""
        starts = self._offsets(OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        topic = self._setup.topics[0]
        if first := starts[topic]:
            raise EventsError(
                f"the events of {topic}-{self.number} before offset {first} are deleted",
                hint="an event store needs all of them; copy those that are left to a new topic",
            )
        for each, start in starts.items():
            self._database.set_position(each, start)
        self._has_starts = True

    def _offsets(self, spec: OffsetSpec, isolation: IsolationLevel) -> dict[str, int]:
        wanted = [Partition(topic, self.number) for topic in self._setup.topics]
        try:
            found = self._setup.cluster.offsets(wanted, spec, isolation=isolation)
        except RequestFailed as error:
            raise unavailable(error) from error
        return {each.topic: offset for each, offset in found.items()}
