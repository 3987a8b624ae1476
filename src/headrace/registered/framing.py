"""The bytes in front of a record: a zero and the id of its schema in four bytes, as serializers with registries do it.

Protobuf has a path after them: which message of the file the record is, by numbers from the outermost to the innermost
message, as zigzag varints with their count. A single 0 is short for the first message.
"""

from __future__ import annotations

from headrace.registered.errors import BadRecord

PREFIX_BYTES = 5
MAGIC = 0

DEPTH_MAX = 32
"""Of nested messages; people nest three."""

VARINT_BYTES_MAX = 5
"""Of a number below 2^31 in zigzag."""

FIRST_MESSAGE = (0,)


def schema_id(record: bytes) -> int:
    if len(record) < PREFIX_BYTES:
        raise BadRecord(f"{len(record)} bytes are too few for a magic byte and the id of a schema")
    if record[0] != MAGIC:
        raise BadRecord(
            f"its magic byte is 0x{record[0]:02x}, and a record with the id of a schema begins with 0x00"
        )
    return int.from_bytes(record[1:PREFIX_BYTES])


def prefix(schema_id: int) -> bytes:
    return bytes([MAGIC]) + schema_id.to_bytes(4)


def message_path(record: bytes) -> tuple[tuple[int, ...], int]:
    """The path of a Protobuf record, and where the message begins."""
    count, position = _varint(record, PREFIX_BYTES)
    if count == 0:
        return FIRST_MESSAGE, position
    if not 0 < count <= DEPTH_MAX:
        raise BadRecord(f"the path to its message has {count} numbers")
    path = []
    for _ in range(count):
        number, position = _varint(record, position)
        path.append(number)
    return tuple(path), position


def path_bytes(path: tuple[int, ...]) -> bytes:
    if path == FIRST_MESSAGE:
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def _varint(record: bytes, position: int) -> tuple[int, int]:
    found = shift = 0
    for offset in range(VARINT_BYTES_MAX):
        if position + offset >= len(record):
            raise BadRecord("it ends within the path to its message")
        byte = record[position + offset]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), position + offset + 1
        shift += 7
    raise BadRecord("the path to its message has a number that is too large")


def _zigzag(number: int) -> bytes:
    rest, encoded = number << 1, bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
