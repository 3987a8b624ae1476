"""Reads the log of an internal topic from its start to its end, as coordinators do when they load their state."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.log.partition_log import PartitionLog
from headrace.records.batch import BatchHeader, checksum_matches, iterate_headers
from headrace.records.errors import InvalidBatch

READ_BYTES = 1_048_576


def batches_in(log: PartitionLog, start_offset: int = 0) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch from an offset on, for a thread that may wait for the disk; InvalidBatch for a damaged one."""
    offset, end_offset = max(log.start_offset, start_offset), log.end_offset
    while offset < end_offset:
        data = bytes(log.reader.read(offset, bytes_max=READ_BYTES, end_offset=end_offset, at_least_one=True))
        next_offset = offset
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size_bytes]
            if not checksum_matches(batch):
                raise InvalidBatch(
                    f"the batch at offset {header.base_offset} of {log.directory} is damaged",
                    hint="stop the broker and run `headrace log repair` on this partition",
                )
            next_offset = header.next_offset
            yield header, batch
        if next_offset == offset:
            return  # compaction removed the rest
        offset = next_offset
