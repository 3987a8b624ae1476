"""The loop of every outgoing edge: records of a topic -> packets -> the transport, and then the committed offset.

At-least-once: after a crash, what was sent since the last commit is sent again, with the same numbers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from headrace.clock import Clock, SystemClock
from headrace.edges.direct.numbering import streams_of
from headrace.edges.direct.packet import join_packet
from headrace.edges.direct.packing import pack
from headrace.edges.direct.publishing import numbered_event, plain_frames
from headrace.edges.direct.settings import PublisherSettings
from headrace.edges.direct.transport import Frames, Sink
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import retry

WAIT_S = 0.1
RETRY_S = 0.05
"""Until a transport that took nothing is tried again."""

SESSION_MS = 6_000
"""The shortest that a broker allows by default."""

POSITIONS_S = 60.0
"""How long a broker that restarts may take until it knows the committed offsets."""

_LOG = logging.getLogger("headrace.edges.kafka")
_LOG.addHandler(logging.NullHandler())


class Sending(Struct, kw_only=True):
    """A partition that this publisher sends."""

    stream: int
    next: int
    """the number after the last one that was sent"""
    committed: int
    sent_s: float = float("-inf")


class Published(Struct, kw_only=True):
    """Totals since the start of the edge."""

    events: int = 0
    packets: int = 0
    heartbeats: int = 0
    too_large: int = 0
    """events that the transport does not take; receivers see a gap"""
    deleted: int = 0
    """numbers that retention deleted before they were sent; receivers see a gap"""
    waits: int = 0
    """how often the transport took nothing, and was tried again"""


class Publisher:
    def __init__(
        self,
        settings: PublisherSettings,
        cluster: Cluster,
        sink: Sink,
        *,
        is_plain: bool = False,
        clock: Clock | None = None,
        on_problem: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._sink = sink
        self._is_plain = is_plain
        self._clock = clock or SystemClock()
        self._on_problem = on_problem
        self._problem = ""
        self._sending: dict[Partition, Sending] = {}
        self._is_stopping: Callable[[], bool] = lambda: False
        self._on_ready: Callable[[], None] = lambda: None
        self._committed_s = self._clock.monotonic_s()
        self.published = Published()
        self._consumer = Consumer(
            cluster.client_config(
                group_id=settings.group,
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                # A position that retention has deleted is a loss, and counted.
                auto_offset_reset="error",
                isolation_level="read_committed",
                # A feed is silent for so long after a crash, until another publisher gets the partitions.
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=SESSION_MS // 4,
                fetch_wait_max_ms=50,
                reconnect_backoff_max_ms=1_000,
            ),
            logger=_LOG,
        )

    @property
    def partitions(self) -> int:
        """How many it sends. The others of the topic are sent by other members of its group."""
        return len(self._sending)

    def lost(self) -> dict[str, int]:
        """What was not sent, for the metrics of the process."""
        return {"too large": self.published.too_large, "deleted": self.published.deleted}

    def counted(self) -> dict[str, int]:
        """For the metrics of the process."""
        return {"sent": self.published.events}

    # --- the loop ---

    def run(self, is_stopping: Callable[[], bool], on_ready: Callable[[], None] = lambda: None) -> None:
        """Until it is stopped. `on_ready` is called when the first partitions are assigned."""
        self._is_stopping = is_stopping
        self._on_ready = on_ready
        self._consumer.subscribe(
            [self._settings.topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )
        while not is_stopping():
            self.step()
        self._commit(is_last=True)

    def step(self) -> None:
        first = self._consumer.poll(min(WAIT_S, self._settings.heartbeat_ms / 1000))
        # `consume` alone waits until its batch is full.
        more = [] if first is None else self._consumer.consume(self._settings.records_at_once - 1, 0)
        messages: dict[Partition, list[Message]] = {}
        deleted: list[Partition] = []
        for message in [] if first is None else [first, *more]:
            partition = Partition(str(message.topic()), message.partition() or 0)
            error = message.error()
            if error is None:
                messages.setdefault(partition, []).append(message)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                deleted.append(partition)
            elif error.fatal():
                raise KafkaException(error)
            else:
                self._report(f"reading {self._settings.topic}: {error.str()}")
        for partition, records in messages.items():
            # A rebalance may have revoked it meanwhile.
            if (sending := self._sending.get(partition)) is not None:
                self._send_records(sending, records)
        if deleted:
            self._skip_deleted(deleted)
        self._send_heartbeats()
        self._commit()

    def _report(self, text: str) -> None:
        """A problem may come with each poll: people see it once until another one comes."""
        if text != self._problem:
            self._problem = text
            self._on_problem(text)

    def _skip_deleted(self, partitions: Sequence[Partition]) -> None:
        earliest = retry(lambda: self._cluster.earliest(partitions), timeout_s=POSITIONS_S)
        for partition, offset in earliest.items():
            if (sending := self._sending.get(partition)) is not None and offset > sending.next:
                self._move(partition, sending, offset)
        # The client does not seek in a partition that has failed.
        self._assign_positions(self._consumer)

    def _assign_positions(self, consumer: Consumer) -> None:
        consumer.assign(
            [TopicPartition(each.topic, each.number, sending.next) for each, sending in self._sending.items()]
        )

    def _move(self, partition: Partition, sending: Sending, earliest: int) -> None:
        """Retention has deleted what was not sent yet."""
        lost = earliest - sending.next
        self._report(f"{lost:,} records of {partition} were deleted before they were sent")
        self.published.deleted += lost
        sending.next = earliest

    # --- sending ---

    def _send_records(self, sending: Sending, records: Sequence[Message]) -> None:
        # After an assignment in between, the client delivers some again.
        records = [each for each in records if (each.offset() or 0) >= sending.next]
        if self._is_plain:
            for record in records:
                if not self._send(plain_frames(record)):
                    return
                sending.next = (record.offset() or 0) + 1
                self.published.events += 1
            return
        packed = pack(
            sending.stream,
            sending.next,
            map(numbered_event, records),
            self._clock.now_ms(),
            self._sink.bounds,
        )
        for packet in packed.packets:
            if not self._send((packet,)):
                return
        sending.next = packed.next
        sending.sent_s = self._clock.monotonic_s()
        self.published.events += len(records) - packed.too_large
        self.published.too_large += packed.too_large

    def _send(self, frames: Frames) -> bool:
        """Whether it was sent, before the edge is stopped."""
        while not self._sink.send(frames):
            if self._is_stopping():
                return False
            self.published.waits += 1
            time.sleep(RETRY_S)
        self.published.packets += 1
        return True

    def _send_heartbeats(self) -> None:
        """The next number of streams that are idle: receivers see whether the last packet was lost."""
        now_s = self._clock.monotonic_s()
        if self._is_plain:
            return
        for sending in self._sending.values():
            if now_s - sending.sent_s >= self._settings.heartbeat_ms / 1000:
                sending.sent_s = now_s
                packet = join_packet(sending.stream, sending.next, sending.next, (), self._clock.now_ms())
                # The next one has the same content: nothing is lost with one that is not sent.
                self.published.heartbeats += self._sink.send((packet,))

    # --- positions ---

    def _assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        partitions = [Partition(str(each.topic), each.partition or 0) for each in assigned]
        self._sending.update(retry(lambda: self._positions(partitions), timeout_s=POSITIONS_S))
        self._assign_positions(consumer)
        # A publisher that has sent nothing continues here, too.
        self._commit(is_last=True)
        if self._sending:
            on_ready, self._on_ready = self._on_ready, lambda: None
            on_ready()

    def _positions(self, partitions: Sequence[Partition]) -> dict[Partition, Sending]:
        """Where to continue."""
        streams = streams_of(self._cluster, self._settings.topic)
        earliest, latest = self._cluster.earliest(partitions), self._cluster.latest(partitions)
        committed = self._cluster.committed(self._settings.group)
        found: dict[Partition, Sending] = {}
        for each in partitions:
            start = earliest[each] if self._settings.from_beginning else latest[each]
            next = committed.get(each, start)
            # Beyond the end: the topic was created again.
            next = earliest[each] if next > latest[each] else next
            found[each] = Sending(stream=streams[each], next=next, committed=-1)
            if next < earliest[each]:
                self._move(each, found[each], earliest[each])
        return found

    def _revoke(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._commit(is_last=True)
        self._lose(_consumer, revoked)

    def _lose(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        for each in lost:
            self._sending.pop(Partition(str(each.topic), each.partition or 0), None)

    def _commit(self, *, is_last: bool = False) -> None:
        now_s = self._clock.monotonic_s()
        if not is_last and now_s - self._committed_s < self._settings.commit_ms / 1000:
            return
        self._committed_s = now_s
        changed = [
            (partition, each) for partition, each in self._sending.items() if each.next != each.committed
        ]
        if not changed:
            return
        offsets = [TopicPartition(each.topic, each.number, sending.next) for each, sending in changed]
        try:
            if is_last:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            # What was sent stays sent: it is sent again, and receivers drop it.
            self._report(f"committing positions: {error.args[0].str()}")
            return
        for _partition, sending in changed:
            sending.committed = sending.next

    def close(self) -> None:
        try:
            self._consumer.close()
        except (KafkaException, RequestFailed) as error:
            self._report(f"leaving the group: {error}")
        self._sink.close()
