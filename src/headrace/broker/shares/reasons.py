"""The reasons that consumers give for rejections.

An acknowledgement has no field for a reason. So a consumer that has one first writes it to a topic: the key is the
record as GROUP/TOPIC/PARTITION/OFFSET, the value is the reason. It rejects the record when that write is acknowledged.
The dead letter then gets the reason. Consumers that don't know of the topic can reject records without a reason.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial

from headrace.broker.internal_topics import REASONS_TOPIC
from headrace.broker.runtime import Runtime
from headrace.broker.shares.originals import decodable
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

REASONS_MAX = 100_000
"""Reasons that are kept until their rejection; the oldest are dropped. Most are used within milliseconds."""

REASONS_CHARS_MAX = 67_108_864
"""Characters of all reasons and their keys."""

REASON_BYTES_MAX = 8_192
"""A reason is a sentence or a traceback; the rest is truncated."""


def reason_key(group_id: str, topic: str, partition: int, offset: int) -> str:
    return f"{group_id}/{topic}/{partition}/{offset}"


class Reasons:
    def __init__(self, runtime: Runtime, topics: Topics) -> None:
        self._runtime = runtime
        self._topics = topics
        self._by_record: OrderedDict[str, str] = OrderedDict()
        self._chars = 0
        self._read_up_to: dict[int, int] = {}

    def get(self, key: str) -> str | None:
        """The reason for a record, if `read_on` has read it."""
        return self._by_record.get(key)

    def forget(self, key: str) -> None:
        """The letter is written."""
        reason = self._by_record.pop(key, None)
        if reason is not None:
            self._chars -= len(key) + len(reason)

    async def read_on(self) -> None:
        """Read new reasons of the topic."""
        topic = self._topics.get(REASONS_TOPIC)
        if topic is None:
            self._read_up_to.clear()
            return
        for partition in topic.partitions:
            log = partition.log
            start = self._read_up_to.get(partition.index, 0)
            if start > log.end_offset:
                start = 0  # the topic was deleted and created again
            if start < partition.high_watermark:
                self._read_up_to[partition.index] = await self._runtime.in_thread(
                    partial(self._read, log, start)
                )

    def _read(self, log: PartitionLog, start: int) -> int:
        """In a thread; the event loop does not use the reasons meanwhile."""
        end_offset = log.end_offset
        try:
            for next_offset, record in decodable(log, start):
                start = next_offset
                self._put(
                    (record.key or b"").decode(errors="replace"), (record.value or b"")[:REASON_BYTES_MAX]
                )
        except (HeadraceError, OSError) as error:
            logger.warning("reasons in %s can't be read, and are retried: %s", log.directory, error)
            return start
        return end_offset

    def _put(self, key: str, reason: bytes) -> None:
        self.forget(key)
        self._by_record[key] = text = reason.decode(errors="replace")
        self._chars += len(key) + len(text)
        while len(self._by_record) > REASONS_MAX or self._chars > REASONS_CHARS_MAX:
            self.forget(next(iter(self._by_record)))
