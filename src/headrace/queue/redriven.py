"""Which records were redriven: marks in one compacted topic for all dead-letter topics.

A record that several jobs can't parse, or one job again after a reset, has several dead letters, maybe in several
topics. All jobs read the record that a redrive appends, so it is appended once.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from headrace.kafka.cluster import Cluster
from headrace.kafka.retries import retry
from headrace.queue.errors import queue_errors
from headrace.queue.letters import DeadLetter
from headrace.queue.message import MessageId
from headrace.queue.outbox import Outbox
from headrace.queue.partition_reader import read_partition

REDRIVEN_TOPIC = "headrace.redriven"


class RedrivenRecords:
    """The marks on one cluster, as of `load`, and those that were added since."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._marks: set[str] = set()

    def load(self) -> None:
        with queue_errors():
            ends = self._cluster.latest(self._cluster.topics().get(REDRIVEN_TOPIC, ()))
        for partition, end in ends.items():
            records = read_partition(self._cluster.client_config(), REDRIVEN_TOPIC, partition.number, 0, end)
            self._marks.update((record.key() or b"").decode() for record in records)

    def has(self, letter: DeadLetter) -> bool:
        return letter.record is not None and letter.record in self._marks

    def add(self, letter: DeadLetter) -> None:
        if letter.record is not None:
            self._marks.add(letter.record)

    def store(self, outbox: Outbox, letters: Iterable[DeadLetter]) -> list[Future[MessageId]]:
        """Write the marks of letters that were redriven."""
        marked = [letter for letter in letters if letter.record is not None]
        if marked:
            self._create_topic()
        return [outbox.send_when_room(REDRIVEN_TOPIC, str(each.id), each.record, ()) for each in marked]

    def _create_topic(self) -> None:
        with queue_errors():
            if REDRIVEN_TOPIC not in self._cluster.topics():
                self._cluster.create_topic(
                    REDRIVEN_TOPIC, partitions=1, config={"cleanup.policy": "compact"}, exist_ok=True
                )
                # Brokers learn of a new topic a moment after it was created.
                retry(
                    lambda: self._cluster.configs("topic", REDRIVEN_TOPIC), timeout_s=self._cluster.timeout_s
                )
