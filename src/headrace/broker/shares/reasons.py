"""Why consumers rejected records, in their own words.

An acknowledgement has no place for words. So a consumer that has some first writes them to a topic: the key
names the record as GROUP/TOPIC/PARTITION/OFFSET, the value is the reason. It rejects when that is acknowledged. Whoever
writes the dead letter then looks here. Consumers that know nothing of this have their records rejected all the same.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace.broker.groups.storage import records_in
from headrace.broker.internal_topics import REASONS_TOPIC
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.services import Services
    from headrace.log.partition_log import PartitionLog

REASONS_MAX = 100_000
"""Reasons that are kept for a rejection to come; the oldest go. Most are used within milliseconds."""

REASON_BYTES_MAX = 8_192
"""A reason is a sentence, or a traceback; more is cut off."""


def reason_key(group_id: str, topic: str, partition: int, offset: int) -> str:
    return f"{group_id}/{topic}/{partition}/{offset}"


class Reasons:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._by_record: OrderedDict[str, str] = OrderedDict()
        self._read_up_to: dict[int, int] = {}

    def take(self, key: str) -> str | None:
        """The reason that a consumer gave for a record, as far as the topic was read."""
        return self._by_record.pop(key, None)

    async def read_on(self) -> None:
        """Read what consumers have written since the last time."""
        topic = self._services.topics.get(REASONS_TOPIC)
        if topic is None:
            self._read_up_to.clear()
            return
        for partition in topic.partitions:
            log = partition.log
            start = self._read_up_to.get(partition.index, 0)
            if start > log.end_offset:
                start = 0  # the topic was deleted and made anew
            if start < partition.high_watermark:
                found, self._read_up_to[partition.index] = await self._services.loop.run_in_executor(
                    self._services.disk_threads, self._read, log, start
                )
                self._by_record.update(found)
        while len(self._by_record) > REASONS_MAX:
            self._by_record.popitem(last=False)

    def _read(self, log: PartitionLog, start: int) -> tuple[dict[str, str], int]:
        found: dict[str, str] = {}
        end_offset = log.end_offset
        try:
            for record in records_in(log, self._services.settings.decompressed_batch_bytes_max, start):
                value = (record.value or b"")[:REASON_BYTES_MAX]
                found[(record.key or b"").decode(errors="replace")] = value.decode(errors="replace")
        except (HeadraceError, OSError):
            pass  # a reason that can't be read is none
        return found, end_offset
