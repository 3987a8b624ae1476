"""Variable-length integers, UUIDs, and the ways in which bytes from outside can be wrong.

`codec` generates the rest; what it generates calls these where a loop is needed.
"""

from __future__ import annotations

import functools
from uuid import UUID

from headrace.errors import HeadraceError
from headrace.protocol.types import Buffer

# Topics that clients name at a time, roughly; some 200 bytes each.
UUIDS_CACHED_MAX = 4_096


class MalformedMessage(HeadraceError):
    """Bytes that are not a valid message: truncated, or with counts that exceed their size."""


@functools.lru_cache(maxsize=UUIDS_CACHED_MAX)
def uuid_of(data: bytes) -> UUID:
    """The UUID of these 16 bytes. Clients name the same few topics again and again, and constructing a UUID is slow."""
    return UUID(bytes=data)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position after it."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedMessage("a varint is longer than 32 bits")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def truncated() -> MalformedMessage:
    return MalformedMessage("the message ends before its fields do")


def too_many(count: int) -> MalformedMessage:
    return MalformedMessage(f"an array announces {count} elements, more than the message can hold")


def too_long(field: str, size: int) -> MalformedMessage:
    return MalformedMessage(f"{field} has {size} bytes, more than a string may have")


def wrong_tag_size(field: str) -> MalformedMessage:
    return MalformedMessage(f"{field} does not fill the tagged field that it is in")


def unexpected_null(field: str) -> MalformedMessage:
    return MalformedMessage(f"{field} is null where null is not allowed")
