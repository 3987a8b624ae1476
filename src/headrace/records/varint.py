"""Zigzag varints, as the records inside a batch are written: small numbers of either sign take one byte."""

from __future__ import annotations

from headrace.records.errors import InvalidBatch

# 64 bits in groups of seven.
_SHIFT_MAX = 63


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it. Raises IndexError where the buffer ends."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    raw = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _SHIFT_MAX:
            raise InvalidBatch("a number inside a record never ends", hint="the batch is damaged")
    if raw >> 64:
        raise InvalidBatch("a number inside a record does not fit 64 bits", hint="the batch is damaged")
    return (raw >> 1) ^ -(raw & 1), position


def append_varint(out: bytearray, value: int) -> None:
    """Append `value` (of 64 bits or less) to `out`."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
