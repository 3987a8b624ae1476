"""Reading a topic as a member of the target's group: bounded, filtered, and committed only when it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from headrace.kafka.cluster import Cluster, Partition
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.progress import Place, Progress
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.outgoing.topic_source import BATCH_RECORDS_MAX, TopicSource
from tests.webhooks.outgoing.conftest import Write, committed, target_of, wait_until


class Reading:
    def __init__(self, target: Target, cluster: Cluster, *, room: int = 1_000_000) -> None:
        self.progress = Progress()
        self.messages: list[Outgoing] = []
        self.forgotten: list[Place] = []
        self.room = room
        self._lock = threading.Lock()
        self.source = TopicSource(
            target,
            cluster,
            self.progress,
            on_messages=self._add,
            on_forget=lambda places: self.forgotten.extend(places),
            has_room=lambda: len(self.messages) < self.room,
        )
        self.source.start()

    def _add(self, messages: Sequence[Outgoing]) -> None:
        with self._lock:
            self.messages.extend(messages)

    def offsets(self, partition: int = 0) -> list[int]:
        with self._lock:
            return sorted(each.origin.offset for each in self.messages if each.origin.partition == partition)

    def done(self, *offsets: int, partition: int = 0) -> None:
        for offset in offsets:
            self.progress.done((self.messages[0].origin.topic, partition), offset)


class Read:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: list[Reading] = []

    def __call__(self, target: Target, *, room: int = 1_000_000) -> Reading:
        reading = Reading(target, self._cluster, room=room)
        self._open.append(reading)
        return reading

    def close(self) -> None:
        for each in self._open:
            each.source.close()


@pytest.fixture
def read(cluster: Cluster) -> Iterator[Read]:
    reads = Read(cluster)
    yield reads
    reads.close()


def test_restart_repeats_what_was_not_done_and_nothing_else(
    read: Read, cluster: Cluster, topic: str, write: Write
) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/")
    write(topic, *(b"%d" % number for number in range(10)))
    first = read(target)
    wait_until(lambda: len(first.messages) == 10)
    first.done(0, 1, 2, 4, 5, 6, 7, 9)
    wait_until(lambda: committed(cluster, target).get(0) == 3)
    first.source.close()

    write(topic, b"10")
    second = read(target)
    wait_until(lambda: len(second.messages) == 3)
    assert second.offsets() == [3, 8, 10]
    ids = {each.origin.offset: each.message_id for each in first.messages}
    assert all(ids[each.origin.offset] == each.message_id for each in second.messages[:2])


def test_records_that_the_filter_does_not_match_are_committed_unread(
    read: Read, cluster: Cluster, topic: str, write: Write
) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/", filter="amount > 100")
    write(topic, *[b'{"amount": 1}'] * 5, b'{"amount": 101}', *[b'{"amount": 2}'] * 5)
    reading = read(target)
    wait_until(lambda: reading.source.skipped == 10)
    wait_until(lambda: committed(cluster, target).get(0) == 5)
    reading.done(5)
    wait_until(lambda: committed(cluster, target).get(0) == 11)


def test_without_room_nothing_is_read_and_the_group_keeps_its_member(
    read: Read, cluster: Cluster, topic: str, write: Write
) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/")
    write(topic, *[b"x"] * 3 * BATCH_RECORDS_MAX)
    reading = read(target, room=10)
    wait_until(lambda: len(reading.messages) >= 10)
    write(topic, b"later")
    wait_until(lambda: reading.source._is_paused)
    assert len(reading.messages) <= 10 + BATCH_RECORDS_MAX
    reading.room = 1_000_000
    wait_until(lambda: len(reading.messages) == 3 * BATCH_RECORDS_MAX + 1)


def test_two_processes_divide_the_partitions_and_hand_them_over(
    read: Read, cluster: Cluster, topic: str, write: Write
) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/")
    first = read(target)
    write(topic, b"a", partition=0)
    write(topic, b"b", partition=1)
    wait_until(lambda: len(first.messages) == 2)
    second = read(target)
    wait_until(lambda: len(first.forgotten) == 1)
    ((_topic, number),) = first.forgotten
    wait_until(lambda: len(second.messages) == 1)
    assert second.messages[0].origin.partition == number, "it was not done"
    second.done(0, partition=number)
    first.done(0, partition=1 - number)
    wait_until(lambda: committed(cluster, target) == {0: 1, 1: 1})


def test_partition_that_is_added_is_read_from_its_first_record(
    read: Read, cluster: Cluster, topic: str, write: Write
) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/")
    cluster.commit(target.group, {Partition(topic, 0): 0, Partition(topic, 1): 0})
    reading = read(target)
    cluster.add_partitions(topic, 3)
    write(topic, b"new", partition=2)
    wait_until(lambda: reading.offsets(partition=2) == [0])


def test_missing_topic_is_an_error_and_no_end(read: Read, cluster: Cluster, topic: str) -> None:
    reading = read(target_of(f"{topic}-missing", "http://127.0.0.1:8080/"))
    wait_until(lambda: reading.source.error != "")
    assert f"{topic}-missing" in reading.source.error
    assert reading.source.failure is None
