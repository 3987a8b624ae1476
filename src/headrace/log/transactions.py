"""Transactions of a partition: how a marker ends one, when it is appended and when recovery replays the log."""

from __future__ import annotations

from headrace.log.aborted_index import AbortedIndex, AbortedTransaction
from headrace.log.errors import CorruptSegment
from headrace.log.producer_state import ProducerStates
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.records.batch import BatchHeader, Buffer
from headrace.records.control import EndTransactionMarker, MarkerType, decode_marker
from headrace.records.record import iterate_records

# A marker is some 80 bytes; nothing in a control batch is compressed.
_MARKER_BYTES_MAX = 65_536


def last_stable_offset(segments: Segments, producers: ProducerStates) -> int:
    """Every transaction below has ended: readers of committed data stop there."""
    first_open_offset = producers.first_open_offset
    return segments.end_offset if first_open_offset is None else max(first_open_offset, segments.start_offset)


def marker_in(batch: Buffer) -> EndTransactionMarker | None:
    """The marker of a control batch; None if it is of another kind, or emptied by compaction."""
    record = next(iterate_records(batch, bytes_max=_MARKER_BYTES_MAX), None)
    return None if record is None else decode_marker(record)


def end_transaction(
    producers: ProducerStates,
    segment: Segment,
    marker: EndTransactionMarker,
    producer_id: int,
    producer_epoch: int,
    *,
    marker_offset: int,
    now_ms: int,
) -> None:
    """Apply a marker of this segment."""
    is_commit = marker.type is MarkerType.COMMIT
    first_offset = producers.end_transaction(
        producer_id, producer_epoch, marker.coordinator_epoch, now_ms, is_commit=is_commit
    )
    if first_offset is None or is_commit:
        return
    first_open_offset = producers.first_open_offset
    segment.aborted_index().append(
        AbortedTransaction(
            producer_id,
            first_offset,
            marker_offset,
            marker_offset + 1 if first_open_offset is None else first_open_offset,
        )
    )


def replay_marker(
    producers: ProducerStates, segment: Segment, position: int, header: BatchHeader, *, now_ms: int
) -> None:
    marker = marker_in(segment.read(header.size_bytes, position))
    if marker is not None:
        end_transaction(
            producers,
            segment,
            marker,
            header.producer_id,
            header.producer_epoch,
            marker_offset=header.last_offset,
            now_ms=now_ms,
        )


def drop_aborted(segment: Segment, from_offset: int) -> None:
    """Drop the index entries of markers from an offset on: they are about to be replayed."""
    try:
        segment.aborted_index().truncate(from_offset)
    except CorruptSegment:
        if from_offset > segment.base_offset:
            raise
        segment.use_aborted_index(AbortedIndex())
