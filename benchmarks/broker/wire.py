"""The few Kafka messages of the raw clients, as bytes of a fixed size, in versions without tags.

They are encoded by hand, so that a raw client costs almost nothing compared with the broker.
"""

from __future__ import annotations

import socket
import struct
import time

from headrace.records.record import Record, encode_batch

TOPIC = b"raw"
PRODUCE_FRAME_BYTES_MAX = 16_384  # the Java producer's default batch.size
FETCH_BYTES = 1_048_576  # the consumers' default for one partition

_CLIENT_ID = b"headrace-benchmark"
_HEADER = struct.Struct(f">hhih{len(_CLIENT_ID)}s")
_PRODUCE = struct.Struct(f">hhiih{len(TOPIC)}siii")
_FETCH = struct.Struct(f">iiiibih{len(TOPIC)}siiqi")
_CORRELATION_ID_POSITION = 8  # after the length of the frame, the key and the version of the API

PRODUCE_RESPONSE = struct.Struct(f">iiih{len(TOPIC)}siihqqqi")
FETCH_RESPONSE = struct.Struct(f">iiiih{len(TOPIC)}siihqqii")


def _request(api_key: int, version: int, body: bytes) -> bytearray:
    header = _HEADER.pack(api_key, version, 0, len(_CLIENT_ID), _CLIENT_ID)
    return bytearray(struct.pack(">i", len(header) + len(body)) + header + body)


def set_correlation_id(request: bytearray, correlation_id: int) -> None:
    struct.pack_into(">i", request, _CORRELATION_ID_POSITION, correlation_id)


def metadata_request() -> bytearray:
    """Metadata version 1 without topics: only the brokers."""
    return _request(3, 1, struct.pack(">i", 0))


def api_versions_request() -> bytearray:
    return _request(18, 0, b"")


def make_batch(record_bytes: int) -> tuple[bytes, int]:
    """A full batch of the Java producer's default size, with records of one size; and the number of records."""
    now_ms = int(time.time() * 1000)
    value = b"x" * record_bytes
    records = [Record(offset=0, timestamp_ms=now_ms, key=None, value=value)]
    batch = encode_batch(records)
    while True:
        records.append(Record(offset=len(records), timestamp_ms=now_ms, key=None, value=value))
        larger = encode_batch(records)
        if len(larger) > PRODUCE_FRAME_BYTES_MAX:
            return batch, len(records) - 1
        batch = larger


def produce_request(batch: bytes) -> bytearray:
    """Produce version 7 of one batch to partition 0, acks=all."""
    body = _PRODUCE.pack(-1, -1, 30_000, 1, len(TOPIC), TOPIC, 1, 0, len(batch))
    return _request(0, 7, body + batch)


def fetch_request(offset: int) -> bytearray:
    """Fetch version 4 from partition 0."""
    partition = (len(TOPIC), TOPIC, 1, 0, offset, FETCH_BYTES)
    return _request(1, 4, _FETCH.pack(-1, 500, 1, 2 * FETCH_BYTES, 0, 1, *partition))


def read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection in the middle of a response")
        parts += part
    return bytes(parts)


def read_response(connection: socket.socket) -> bytes:
    """One response without its length: correlation id and body."""
    (length,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, length)


def knows_a_broker(metadata_response: bytes) -> bool:
    return int(struct.unpack_from(">i", metadata_response, 4)[0]) > 0
