"""The dead letters of share groups as records, and how many are written together. Pure: no log, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from headrace.broker.shares.originals import Original
from headrace.broker.shares.window import DeadRecords
from headrace.dead_letters import (
    DELIVERY_COUNT_HEADER,
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
    is_error_header,
    with_errors,
)
from headrace.records.record import Record, encode_record


class Place(NamedTuple):
    """The group and the partition that letters are of."""

    group_id: str
    topic: str
    partition: int


def letter(place: Place, dead: DeadRecords, original: Original, reason: str) -> Record:
    """The record with error headers; only what is known if it could not be read."""
    record = original.record
    message = f"{reason} (not copied: {original.problem})" if original.problem else reason
    errors = {
        TOPIC_HEADER: place.topic,
        PARTITION_HEADER: str(place.partition),
        OFFSET_HEADER: str(record.offset),
        GROUP_HEADER: place.group_id,
        DELIVERY_COUNT_HEADER: str(dead.delivery_count),
        REASON_HEADER: message,
    }
    return replace(record, headers=with_errors(record.headers, errors))


def offset_in(letter: Record, place: Place) -> int | None:
    """The offset of the record that a letter is of; None if it is of another group or partition."""
    headers = dict(letter.headers)
    of = (headers.get(GROUP_HEADER), headers.get(TOPIC_HEADER), headers.get(PARTITION_HEADER))
    offset = headers.get(OFFSET_HEADER) or b""
    if of != (place.group_id.encode(), place.topic.encode(), str(place.partition).encode()):
        return None
    return int(offset) if offset.isdigit() else None


def fit(letters: Iterable[Record], *, now_ms: int, letter_bytes_max: int, bytes_max: int) -> list[Record]:
    """As many letters as fit into `bytes_max`, and at least the first, shrunk if necessary."""
    fitting: list[Record] = []
    size_bytes = 0
    for one in letters:
        stamped = replace(one, offset=len(fitting), timestamp_ms=now_ms)
        if not fitting:
            stamped = _shrunk(stamped, letter_bytes_max)
        size_bytes += _size(stamped)
        if fitting and size_bytes > min(bytes_max, letter_bytes_max):
            break
        fitting.append(stamped)
    return fitting


def _shrunk(letter: Record, bytes_max: int) -> Record:
    """A record may fit into its own topic and not into the dead-letter topic: keep at least its error headers."""
    if _size(letter) <= bytes_max:
        return letter
    note = f" (not copied: {_size(letter)} bytes are too many for this topic)".encode()
    headers = tuple(
        (name, (value or b"") + note if name == REASON_HEADER else value)
        for name, value in letter.headers
        if is_error_header(name)
    )
    without_value = replace(letter, value=None, headers=headers)
    return without_value if _size(without_value) <= bytes_max else replace(without_value, key=None)


def _size(letter: Record) -> int:
    return len(encode_record(letter, timestamp_delta_ms=0, offset_delta=letter.offset))
