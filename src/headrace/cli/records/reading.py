"""Reading topics with a start, an end and possibly a group, for `headrace consume`.

The client never resets an offset (`auto.offset.reset=error`). Records that retention deleted before they were read are
counted and reported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import BinaryIO, Self, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from headrace.cli.output import note
from headrace.cli.stopping import Stopping
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import request_failed

# Long enough not to spin, short enough for Ctrl-C.
POLL_S = 0.2
# Messages per call: a call for each costs more than the record itself.
POLL_RECORDS_MAX = 1000


class Start(Struct, frozen=True, kw_only=True):
    """Where to start; without any field, at the end."""

    beginning: bool = False
    offset: int | None = None
    time_ms: int | None = None
    last: int | None = None

    def offsets(self, cluster: Cluster, partitions: Sequence[Partition]) -> dict[Partition, int]:
        if self.time_ms is not None:
            return cluster.at_time(partitions, self.time_ms)
        if self.offset is not None:
            # Not raised to the start of the partition: the records that are missing are reported.
            ends = cluster.latest(partitions)
            return {each: min(self.offset, ends[each]) for each in partitions}
        if self.beginning:
            return cluster.earliest(partitions)
        ends = cluster.latest(partitions)
        if self.last is None:
            return ends
        starts = cluster.earliest(partitions)
        return {each: max(starts[each], ends[each] - self.last) for each in partitions}


def parse_offset(text: str) -> Start:
    """`beginning`, `end`, an offset, or -N for N before the end."""
    if text == "beginning":
        return Start(beginning=True)
    if text == "end":
        return Start()
    if not re.fullmatch(r"-?\d+", text):
        raise HeadraceError(
            f"{text!r} is not an offset", hint="write beginning, end, 42, or -5 for the last five"
        )
    return Start(last=-int(text)) if text.startswith("-") else Start(offset=int(text))


class Reading:
    """One run over the topics. Use as a context: leaving it commits (in a group) and closes."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        topics: Sequence[str],
        partitions: Sequence[int],
        start: Start,
        follow: bool,
        group: str | None,
    ) -> None:
        self._cluster = cluster
        self._topics = list(topics)
        self._start = start
        self._follow = follow
        self._group = group
        self._chosen = _choose(cluster, topics, partitions)
        self._ends = cluster.latest(self._chosen)
        self._unfinished: set[Partition] = set()
        self._positions: dict[Partition, int] = {}
        self._has_gap = False
        self._is_assigned = False
        self._consumer = Consumer(
            cluster.client_config(
                # Without a group nothing is joined and nothing committed, but the client requires a name.
                group_id=group or f"headrace-consume-{os.getpid()}",
                auto_offset_reset="error",
                enable_auto_commit=group is not None,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                check_crcs=True,  # corrupt records are an error
            )
        )

    def __enter__(self) -> Self:
        if self._group is None:
            self._start_reading(self._start.offsets(self._cluster, self._chosen))
        else:
            self._consumer.subscribe(self._topics, on_assign=self._on_assign)
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            if self._group is not None:
                self._commit()
        finally:
            self._consumer.close()

    def run(
        self,
        to_bytes: Callable[[Message], bytes],
        output: BinaryIO,
        *,
        count_max: int | None,
        stopping: Stopping,
    ) -> None:
        """Write records until the end, the count or a signal.

        It stops between two records, so that exactly the written records are committed.
        """
        left = sys.maxsize if count_max is None else count_max
        while left and not (self._is_finished() or stopping.is_wanted):
            for message in self._consumer.consume(min(POLL_RECORDS_MAX, left), timeout=POLL_S):
                if stopping.is_wanted:
                    break
                left -= self._take(message, to_bytes, output)
            self._jump_gaps()
            output.flush()

    def _take(self, message: Message, to_bytes: Callable[[Message], bytes], output: BinaryIO) -> bool:
        """Write a record; false if the message is an error, or a record that was written after the start."""
        error = message.error()
        if error is not None:
            self._on_error(error, message)
            return False
        partition, offset = _place(message)
        if not self._follow and offset >= self._ends[partition]:
            self._unfinished.discard(partition)
            return False
        output.write(to_bytes(message))
        self._positions[partition] = offset + 1
        if self._group is not None:
            self._consumer.store_offsets(message)
        if offset + 1 >= self._ends[partition]:
            self._unfinished.discard(partition)
        return True

    def _is_finished(self) -> bool:
        return not self._follow and self._is_assigned and not self._unfinished

    def _on_error(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # Also if the last offsets have no record (compaction, a transaction marker).
            self._unfinished.discard(_place(message)[0])
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._report_gap(message)
        elif error.retriable() or code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            note(f"headrace: {error.str()}; retrying")
        else:
            raise request_failed(error, "reading")

    def _report_gap(self, message: Message) -> None:
        """The offset does not exist: report the missing records and continue at the nearest offset."""
        partition, wanted = _place(message)
        target = self._cluster.earliest([partition])[partition]
        if wanted < target:
            note(
                f"headrace: {partition}: {target - wanted} records from offset {wanted} on are missing "
                f"(retention); continuing at {target}"
            )
        else:
            target = self._cluster.latest([partition])[partition]
            note(f"headrace: {partition}: there is no offset {wanted}, it ends at {target}; continuing there")
        self._positions[partition] = target
        self._has_gap = True
        if target >= self._ends[partition]:
            self._unfinished.discard(partition)

    def _jump_gaps(self) -> None:
        """Continue after the missing records. The client stopped reading there, and only a new assignment restarts it.

        Called between polls, when all records of the last poll are written.
        """
        if self._has_gap:
            self._has_gap = False
            self._assign()

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        partitions = [Partition(each.topic, each.partition) for each in assigned]
        committed = {
            Partition(each.topic, each.partition): each.offset
            for each in consumer.committed(assigned, timeout=self._cluster.timeout_s)
            if each.offset >= 0
        }
        fresh = [each for each in partitions if each not in committed]
        if not assigned:
            note(f"headrace: the other members of group {self._group} have all partitions")
        self._start_reading({**committed, **self._start.offsets(self._cluster, fresh)})

    def _start_reading(self, offsets: dict[Partition, int]) -> None:
        # A partition that was added since is unknown; it counts as ending where it starts.
        self._ends = {**offsets, **self._ends}
        self._unfinished = {each for each, offset in offsets.items() if offset < self._ends[each]}
        self._is_assigned = True
        self._positions = dict(offsets)
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign(
            [TopicPartition(each.topic, each.number, offset) for each, offset in self._positions.items()]
        )

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise request_failed(
                    error.args[0], f"committing the position of group {self._group}"
                ) from error


def _place(message: Message) -> tuple[Partition, int]:
    # Not None for a message that was read.
    topic, number, offset = message.topic(), message.partition(), message.offset()
    return Partition(cast("str", topic), cast("int", number)), cast("int", offset)


def _choose(cluster: Cluster, topics: Sequence[str], numbers: Sequence[int]) -> list[Partition]:
    chosen = []
    for topic in topics:
        there = cluster.partitions(topic)
        missing = set(numbers) - {each.number for each in there}
        if missing:
            hint = f"it has 0 to {len(there) - 1}"
            raise HeadraceError(f"topic {topic} has no partition {min(missing)}", hint=hint)
        chosen += [each for each in there if not numbers or each.number in numbers]
    return chosen
