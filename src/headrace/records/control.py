"""Control records: what the broker itself writes between the records of clients to end a transaction.

A key is a version and a type, a value is a version and what belongs to that type. As in Kafka, a version newer than 0
is read like 0: it may only add bytes at the end.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from msgspec import Struct

from headrace.records.errors import InvalidBatch
from headrace.records.record import Record, encode_batch

_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_HINT = "the log is damaged, or was written by something else than a broker"


class MarkerType(IntEnum):
    """How a transaction ended. Higher numbers are other control records, which concern no transaction."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(Struct, frozen=True, kw_only=True):
    """The end of a producer's transaction in a partition."""

    type: MarkerType
    coordinator_epoch: int = 0


def encode_marker(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """The key and the value of its record."""
    return _KEY.pack(_VERSION, marker.type), _VALUE.pack(_VERSION, marker.coordinator_epoch)


def decode_marker(record: Record) -> EndTransactionMarker | None:
    """The marker that a record of a control batch is; None for a control record of another type."""
    version, kind = _unpack(_KEY, record.key, "key")
    if kind not in (MarkerType.ABORT, MarkerType.COMMIT):
        return None
    value_version, coordinator_epoch = _unpack(_VALUE, record.value, "value")
    if version < 0 or value_version < 0:
        raise InvalidBatch("a transaction marker has a negative version", hint=_HINT)
    return EndTransactionMarker(type=MarkerType(kind), coordinator_epoch=coordinator_epoch)


def encode_marker_batch(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """The batch of one record that ends the producer's transaction; the log gives it its offset."""
    key, data = encode_marker(marker)
    return encode_batch(
        [Record(offset=0, timestamp_ms=timestamp_ms, key=key, value=data)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def _unpack(format: struct.Struct, data: bytes | None, name: str) -> tuple[int, int]:
    if data is None or len(data) < format.size:
        raise InvalidBatch(f"the {name} of a control record is cut off or missing", hint=_HINT)
    first, second = format.unpack_from(data)
    return first, second
